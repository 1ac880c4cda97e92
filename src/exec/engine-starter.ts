/** Starts each process with an exec of the engine of its own. */
import type { Engine, ExecSink } from "../engine/engine.js";
import { EngineProcess, type ShellLess } from "./engine-process.js";
import type { CommandTarget, ProcessSpec, ProcessStarter, StartedProcess } from "./starter.js";

export class EngineStarter implements ProcessStarter {
	readonly #engine: Engine;
	readonly #shellLess: ShellLess;

	/** `shellLess`: containers found to have no `sh`, shared with whoever else wants to know. */
	constructor(engine: Engine, shellLess: ShellLess = new Set()) {
		this.#engine = engine;
		this.#shellLess = shellLess;
	}

	async start(target: CommandTarget, spec: ProcessSpec, sink: ExecSink): Promise<StartedProcess> {
		const process = new EngineProcess(this.#engine, target, spec, sink, this.#shellLess);
		await process.open();
		return process;
	}
}

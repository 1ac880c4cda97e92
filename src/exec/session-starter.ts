/** Starts commands on sessions, and with an exec of the engine what a session is not for. */
import { randomBytes } from "node:crypto";
import type { Engine, ExecSink } from "../engine/engine.js";
import type { ShellLess } from "./engine-process.js";
import { EngineStarter } from "./engine-starter.js";
import { withEnv } from "./runner.js";
import { SessionPool, type SessionPoolOptions } from "./session-pool.js";
import { SessionProcess } from "./session-process.js";
import { lineBody } from "./session-script.js";
import type { CommandTarget, ProcessSpec, ProcessStarter, StartedProcess } from "./starter.js";

export class SessionStarter implements ProcessStarter {
	readonly pool: SessionPool;
	readonly #engine: EngineStarter;
	readonly #shellLess: ShellLess;

	constructor(engine: Engine, shellLess: ShellLess = new Set(), options: SessionPoolOptions = {}) {
		this.pool = new SessionPool(engine, options);
		this.#engine = new EngineStarter(engine, shellLess);
		this.#shellLess = shellLess;
	}

	async start(target: CommandTarget, spec: ProcessSpec, sink: ExecSink): Promise<StartedProcess> {
		const onEngine = (): Promise<StartedProcess> => this.#engine.start(target, spec, sink);
		const body = this.#bodyFor(target, spec);
		const assigned = body && (await this.pool.assign(target, body, sink));
		return assigned ? new SessionProcess(assigned, onEngine) : onEngine();
	}

	/**
	 * Runs a script beside the commands, on a session and nowhere else. `false`: it did not come to its end; it may have begun.
	 * Its streams are given up after `limitMs`.
	 */
	async script(
		target: CommandTarget,
		argv: readonly string[],
		env: Readonly<Record<string, string>>,
		onStdout: (chunk: Buffer) => void,
		limitMs: number,
	): Promise<number | undefined> {
		if (this.#shellLess.has(target.id)) return undefined;
		const marker = randomBytes(16).toString("hex");
		const body = lineBody({ input: undefined, cwd: "/", marker, words: withEnv(argv, env) });
		const assigned = body && (await this.pool.assign(target, body, { onStdout, onStderr: () => {} }));
		if (!assigned) return undefined;
		let timer: NodeJS.Timeout | undefined;
		const tooLong = new Promise<undefined>((resolve) => {
			timer = setTimeout(() => resolve(undefined), limitMs);
		});
		const end = await Promise.race([assigned.run.ended, tooLong]);
		clearTimeout(timer);
		if (!end) assigned.session.close();
		return end?.kind === "exited" ? end.exitCode : undefined;
	}

	/** The command as a line for a session; `undefined` where it is not for one. */
	#bodyFor(target: CommandTarget, spec: ProcessSpec): Buffer | undefined {
		if (spec.terminal || (spec.stdin && !spec.input) || spec.user !== target.user) return undefined;
		if (this.#shellLess.has(target.id)) return undefined;
		const { input, cwd, marker } = spec;
		return lineBody({ input, cwd, marker, words: withEnv(spec.argv, spec.env) });
	}
}

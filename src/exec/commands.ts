/** Runs commands in running containers: starts a process, carries its streams, ends it in time, and tells how it ended. */
import { randomBytes } from "node:crypto";
import type { Engine } from "../engine/engine.js";
import { invalid } from "../primitives/checks.js";
import { CommandRun } from "./command-run.js";
import { ScriptEnder } from "./ender.js";
import { EngineStarter } from "./engine-starter.js";
import { checkedTerminal, type ExecRequest, normaliseExec, type TerminalSize } from "./request.js";
import { type ExecResult, SIGNAL_NAMES } from "./result.js";
import { SessionStarter } from "./session-starter.js";
import type { CommandTarget, EndSpec, ProcessStarter, TreeEnder } from "./starter.js";

/** A command that runs. */
export interface RunningCommand {
	/** Its pid in the sandbox once it runs, 0 where that cannot be known; `undefined` when it ended before. Never rejects. */
	readonly pid: Promise<number | undefined>;
	/** How it ended; rejects as {@link Commands.run} does. */
	readonly result: Promise<ExecResult | ExecResult<Buffer>>;
	/** Sends a signal (`"TERM"`, `"SIGINT"` …) to the command's process group; `false` when it has ended. */
	kill(signalName?: string): Promise<boolean>;
	/** Tells its terminal the new size. */
	resize(size: TerminalSize): Promise<void>;
}

/** `session`: commands go to shells that wait in the sandbox, where they can. `engine`: each is an exec of the engine. */
export type ExecPath = "session" | "engine";
export const EXEC_PATHS: readonly ExecPath[] = Object.freeze(["session", "engine"] as const);

export interface CommandsOptions {
	/** How commands reach the sandbox: on sessions (default), or each by an exec of the engine. */
	readonly path?: ExecPath;
	/** How long an unused session stays, in ms. Default one minute. */
	readonly sessionIdleMs?: number;
	/** How processes are started. Left out: as `path` says. */
	readonly starter?: ProcessStarter;
	/** How commands are ended. Left out: by a script beside them. */
	readonly ender?: TreeEnder;
}

export class Commands {
	readonly #engine: Engine;
	readonly #starter: ProcessStarter;
	readonly #ender: TreeEnder;
	readonly #sessions: SessionStarter | undefined;
	/** What runs now, by container. */
	readonly #running = new Map<string, Set<CommandRun>>();

	constructor(engine: Engine, options: CommandsOptions = {}) {
		const shellLess = new Set<string>();
		this.#engine = engine;
		const { path, starter, ender, sessionIdleMs: idleMs } = options;
		const sessions =
			starter || path === "engine"
				? undefined
				: new SessionStarter(engine, shellLess, idleMs === undefined ? {} : { idleMs });
		this.#sessions = sessions;
		this.#starter = starter ?? sessions ?? new EngineStarter(engine, shellLess);
		this.#ender = ender ?? new ScriptEnder(engine, shellLess, sessions && ((...script) => sessions.script(...script)));
	}

	/** Lets the sessions go: those that wait at once, the others after their commands. More are opened when they are needed. */
	close(): void {
		this.#sessions?.pool.close();
	}

	/** The checked form of a command and its options, frozen. Throws `invalid_input` before anything happens. */
	normalise(command: unknown, options?: unknown): ExecRequest {
		return normaliseExec(command, options);
	}

	/**
	 * Runs a command to its end. It returns when the command itself ends, though a child of it may hold its streams and go on.
	 * The result holds strings, or Buffers where the request's encoding is `buffer`.
	 *
	 * Rejects with `bad_cwd` when the working directory cannot be entered; `gone` or `stopped` when the container is not there
	 * or ended under the command, with the output so far; `exec_lost` when its end cannot be known; and with the signal's own
	 * reason once the command and all it started are dead. An aborted signal starts nothing.
	 */
	async run(target: CommandTarget, request: ExecRequest): Promise<ExecResult | ExecResult<Buffer>> {
		return this.start(target, request).result;
	}

	/** Starts a command and gives a hold on it. Every failure is told by `result`. */
	start(target: CommandTarget, request: ExecRequest): RunningCommand {
		const parts = { engine: this.#engine, starter: this.#starter, ender: this.#ender };
		const run = new CommandRun(parts, target, request, randomBytes(16).toString("hex"));
		const user = request.user ?? target.user;
		const resize = async (size: TerminalSize): Promise<void> => {
			const checked = checkedTerminal(size);
			if (checked) await run.resize(checked);
		};
		// A size that could not be told is told again by the next change; it is no reason to end a command.
		const stopResizing = request.terminal?.onResize?.((size) => void resize(size).catch(() => {}));
		return {
			pid: run.pid,
			result: this.#among(target.id, run).finally(() => stopResizing?.()),
			kill: async (signalName = "TERM") => {
				const name = signalName.replace(/^SIG/, "");
				if (!SIGNAL_NAMES.has(name)) throw invalid("signal", "the name of a signal, as TERM or SIGINT", signalName);
				const pid = await run.pid;
				return pid === undefined || run.hasEnded ? false : this.#ender.signal(target, pid, user, name);
			},
			resize,
		};
	}

	/** Ends all processes of one command, whoever started it. */
	async end(target: CommandTarget, spec: EndSpec): Promise<readonly number[] | undefined> {
		return this.#ender.end(target, spec);
	}

	/** Signals the process group of one command, whoever started it; `false` when there is none. */
	async signal(target: CommandTarget, pid: number, signalName: string): Promise<boolean> {
		return this.#ender.signal(target, pid, target.user, signalName);
	}

	/** Runs it, and lets commands that run at the same time know of each other. */
	async #among(id: string, run: CommandRun): Promise<ExecResult | ExecResult<Buffer>> {
		const all = this.#running.get(id) ?? new Set();
		this.#running.set(id, all);
		for (const other of all) other.hadCompany = run.hadCompany = true;
		all.add(run);
		try {
			return await run.run();
		} finally {
			all.delete(run);
			if (all.size === 0) this.#running.delete(id);
		}
	}
}

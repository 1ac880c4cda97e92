/** Background processes of a sandbox: started here, found again from anywhere, their output and status kept in the sandbox's home. */
import { randomBytes } from "node:crypto";
import { sleep } from "../primitives/abort.js";
import { isSandboxError, SandboxError } from "../primitives/errors.js";
import { ProcessFiles, type ProcessRecord, toSpecText } from "./processes-files.js";
import { type LogChunk, readLogs } from "./processes-logs.js";
import {
	checkedName,
	checkedSignalName,
	type LogsOptions,
	normaliseLogs,
	normaliseProcess,
	normaliseWait,
	type ProcessOptions,
	type WaitOptions,
} from "./processes-request.js";
import { ALIVE, backgroundCall } from "./processes-script.js";
import { type Command, type ExecRequest, normaliseExec } from "./request.js";
import type { ExecResult } from "./result.js";
import type { CommandTarget, EndSpec } from "./starter.js";

/** Between being told to end and being killed. */
const KILL_GRACE_MS = 2000;
/** How long a process may be on its way to its pid before it counts as lost. */
const STARTING_MS = 30_000;
/** How often somebody who waits looks at the files, the container, and the processes in it. */
const MIN_LOOK_MS = 20;
const MAX_LOOK_MS = 250;
const CONTAINER_EVERY_MS = 1000;
const ALIVE_EVERY_MS = 5000;

/** A background process as it is now. */
export interface ProcessInfo {
	readonly id: string;
	readonly name?: string;
	readonly command: Command;
	readonly cwd: string;
	/** In the sandbox. Left out until it is known. */
	readonly pid?: number;
	/** `lost`: it no longer runs and nobody saw its end, as when the container was stopped under it or its keeper was killed. */
	readonly state: "running" | "exited" | "lost";
	/** Its status once it has exited; 128+n when signal n ended it. */
	readonly exitCode?: number;
	readonly startedAt: Date;
	readonly endedAt?: Date;
}

/** The sandbox that the processes are in. */
export interface ProcessHost {
	readonly name: string;
	/** Its home directory on the host, and inside. */
	readonly home: string;
	readonly homeInside: string;
	nowMs(): number;
	/** The sandbox for a command, with the variables that hold now. */
	target(): Promise<CommandTarget>;
	run(target: CommandTarget, request: ExecRequest): Promise<ExecResult | ExecResult<Buffer>>;
	end(target: CommandTarget, spec: EndSpec): Promise<readonly number[] | undefined>;
	signal(target: CommandTarget, pid: number, signalName: string): Promise<boolean>;
	/** Whether the container runs, paused or not. */
	isRunning(): Promise<boolean>;
}

/**
 * The background processes of a sandbox, as `box.processes` gives them. They go on when whoever started them ends, whatever way, and
 * any process finds them again by id or name. They end with the container.
 *
 * Output and status are kept in the sandbox's home (`~/.sandboxes/processes`), where code in the sandbox can change them, until
 * {@link remove}. A rebuild keeps them; the processes themselves are then `lost`.
 */
export class Processes {
	readonly #host: ProcessHost;
	readonly #files: ProcessFiles;

	/** @internal */
	constructor(host: ProcessHost) {
		this.#host = host;
		this.#files = new ProcessFiles(host.home);
	}

	/**
	 * Starts a command that goes on by itself, and tells of it once it runs. It reads an end of file. A program that is not there is
	 * no error here but exit code 127, with the reason in its log.
	 *
	 * Throws `invalid_input`, `bad_cwd`, `unsupported` (an image without `dd` or `wc`), `workspace_unusable` when its
	 * directory cannot be written, and what `exec()` throws.
	 *
	 * @example
	 * ```ts
	 * import { Sandboxes } from "sandboxes";
	 * const sandboxes = new Sandboxes({ root: "/var/tmp/sandboxes-example" });
	 * const box = await sandboxes.create("background");
	 * await box.processes.start("echo listening; sleep 1; exit 3", { name: "server" });
	 * // In this process or another:
	 * const { exitCode } = await box.processes.wait("server", { timeoutMs: 30_000 });
	 * for await (const { stream, chunk } of box.processes.logs("server"))
	 * 	console.log(exitCode, stream, chunk.toString().trim()); // 3 stdout listening
	 * await sandboxes.remove("background");
	 * ```
	 */
	async start(command: Command, options: ProcessOptions = {}): Promise<ProcessInfo> {
		const { name, maxLogBytes, exec, command: asked } = normaliseProcess(command, options);
		exec.signal?.throwIfAborted();
		const target = await this.#host.target();
		const id = randomBytes(8).toString("hex");
		const spec = { id, name, command: asked, cwd: exec.cwd, startedAtMs: this.#host.nowMs() };
		const call = backgroundCall({
			directory: `${this.#host.homeInside}/.sandboxes/processes/${id}`,
			id,
			maxLogBytes,
			spec: toSpecText(spec),
			argv: exec.argv,
			env: { ...droppedByShells(target.containerEnv), ...target.env, ...exec.env },
		});
		const { cwd, signal } = exec;
		const request = normaliseExec(call.argv, { env: call.env, cwd, signal, maxOutputBytes: 64 * 1024 });
		const result = (await this.#host.run(bareOf(target), request)) as ExecResult;
		const life = this.#files.find(id)?.life;
		const pid = life?.pid ?? Number(/^(\d+) /.exec(result.stdout)?.[1] ?? 0);
		if (result.exitCode !== 0 || pid === 0) throw this.#notStarted(result);
		return toInfo({ spec, life: { pid, words: "" }, exit: undefined }, "running");
	}

	/** All processes whose output is still kept, the oldest first, ended ones too. Throws `gone`, `engine_unavailable`. */
	async list(): Promise<ProcessInfo[]> {
		const records = this.#files.list();
		const alive = await this.#alive(records);
		return records.map((record) => this.#judged(record, alive));
	}

	/** A process by its id, or the newest of this name. Throws `not_found`. */
	async get(idOrName: string): Promise<ProcessInfo> {
		const found = await this.find(idOrName);
		if (!found) throw this.#notFound(idOrName);
		return found;
	}

	/** The same, or `undefined`. */
	async find(idOrName: string): Promise<ProcessInfo | undefined> {
		const record = this.#record(idOrName);
		return record && this.#judged(record, await this.#alive([record]));
	}

	/**
	 * The output that is kept, or with `follow` all that comes until the process has ended. Of each stream the newest part is kept
	 * (`maxLogBytes`); a gap shows in `atByte`. Throws `not_found`, and the signal's reason.
	 */
	async *logs(idOrName: string, options: LogsOptions = {}): AsyncGenerator<LogChunk> {
		const checked = normaliseLogs(options);
		checked.signal?.throwIfAborted();
		const record = this.#record(idOrName);
		if (!record) throw this.#notFound(idOrName);
		const { id } = record.spec;
		const look = this.#watch(id);
		yield* readLogs(this.#files, id, checked, async () => (await look()) !== "running");
	}

	/**
	 * Waits until the process has ended, and tells how. Any number may wait, in any process. Throws `not_found`, `timeout`, and the
	 * signal's reason; none of them ends the process.
	 */
	async wait(idOrName: string, options: WaitOptions = {}): Promise<ProcessInfo> {
		const { timeoutMs, signal } = normaliseWait(options);
		signal?.throwIfAborted();
		const id = this.#record(idOrName)?.spec.id;
		if (id === undefined) throw this.#notFound(idOrName);
		const endsAt = performance.now() + (timeoutMs ?? Number.POSITIVE_INFINITY);
		const look = this.#watch(id);
		for (let pause = MIN_LOOK_MS; ; pause = Math.min(pause * 1.5, MAX_LOOK_MS)) {
			const state = await look();
			if (state !== "running") {
				const record = this.#files.find(id);
				if (!record) throw this.#notFound(idOrName);
				return toInfo(record, state);
			}
			const left = endsAt - performance.now();
			if (left <= 0) {
				throw new SandboxError(
					"timeout",
					`waiting for process ${idOrName} in ${this.#host.name}: it still runs after ${timeoutMs} ms`,
					{ details: { what: `process ${idOrName}`, timeoutMs: timeoutMs ?? 0 } },
				);
			}
			await sleep(Math.min(pause, left), signal);
		}
	}

	/**
	 * With a signal's name (`"INT"`, `"SIGHUP"` …): sends it to the process's group. Without: ends the process with all it started,
	 * by SIGTERM and after 2 s by SIGKILL, and returns when nothing of it is left. `false` when it did not run any more.
	 * Throws `not_found`, `invalid_input`, and `exec_lost` when something of it could not be ended.
	 */
	async kill(idOrName: string, signalName?: string): Promise<boolean> {
		const name = signalName === undefined ? undefined : checkedSignalName(signalName);
		const record = this.#record(idOrName);
		if (!record) throw this.#notFound(idOrName);
		const alive = await this.#alive([record]);
		const { id } = record.spec;
		const pid = record.life?.pid;
		if (!alive.has(id) || pid === undefined) return false;
		const target = await this.#host.target();
		if (name !== undefined) return this.#host.signal(target, pid, name);
		const left = await this.#host.end(target, { marker: id, pid, user: undefined, graceMs: KILL_GRACE_MS });
		if (left?.length === 0) return true;
		throw new SandboxError(
			"exec_lost",
			`ending process ${idOrName} in ${this.#host.name}: something of it still runs`,
			{
				details: { name: this.#host.name },
				hint: "stop the sandbox to end everything in it",
			},
		);
	}

	/** Ends the process if it still runs, and deletes what is kept of it. `false` when there was none. */
	async remove(idOrName: string): Promise<boolean> {
		const record = this.#record(idOrName);
		if (!record) return false;
		const { id } = record.spec;
		if ((await this.#alive([record])).has(id)) {
			await this.kill(id);
			// Its keeper writes down the status before it goes.
			await this.wait(id, { timeoutMs: STARTING_MS });
		}
		try {
			await this.#files.remove(id);
		} catch (error) {
			// Files of the sandbox's root, which only that may delete.
			if (!isSandboxError(error, "workspace_unusable") || !(await this.#removeInside(id))) throw error;
		}
		return true;
	}

	async #removeInside(id: string): Promise<boolean> {
		const argv = ["rm", "-rf", "--", `${this.#host.homeInside}/.sandboxes/processes/${id}`];
		try {
			return (
				(await this.#host.run(bareOf(await this.#host.target()), normaliseExec(argv, { cwd: "/" }))).exitCode === 0
			);
		} catch {
			return false;
		}
	}

	#record(idOrName: string): ProcessRecord | undefined {
		const asked = checkedName("process", idOrName);
		return this.#files.find(asked) ?? this.#files.list().findLast(({ spec }) => spec.name === asked);
	}

	/**
	 * The ids of those that run, of those that are not known to have ended. Asks the sandbox once, and only when it must. Throws
	 * `gone`: another container may be there by now, and they may be in it.
	 */
	async #alive(records: readonly ProcessRecord[]): Promise<ReadonlySet<string>> {
		const open = records.filter(({ exit }) => !exit);
		if (open.length === 0) return new Set();
		const starting = open.filter(
			({ life, spec }) => !life && Math.abs(this.#host.nowMs() - spec.startedAtMs) < STARTING_MS,
		);
		const lives = open.flatMap(({ spec, life }) => (life ? [`${spec.id}:${life.words}`] : []));
		try {
			// Nobody can look into a paused container; what was in it is still there.
			const request = normaliseExec(["sh", "-c", ALIVE, "sbx-alive", ...lives], { cwd: "/" });
			const { stdout } = (await this.#host.run(bareOf(await this.#host.target()), request)) as ExecResult;
			return new Set([...stdout.split("\n"), ...starting.map(({ spec }) => spec.id)]);
		} catch (error) {
			if (!isSandboxError(error, "stopped")) throw error;
			return new Set(error.details.state === "paused" ? open.map(({ spec }) => spec.id) : []);
		}
	}

	#judged(record: ProcessRecord, alive: ReadonlySet<string>): ProcessInfo {
		if (record.exit) return toInfo(record, "exited");
		if (alive.has(record.spec.id)) return toInfo(record, "running");
		// It may have ended between the two looks.
		const again = this.#files.find(record.spec.id) ?? record;
		return toInfo(again, again.exit ? "exited" : "lost");
	}

	/** A question for the state of one process that may be asked often: mostly it looks at a file. */
	#watch(id: string): () => Promise<ProcessInfo["state"]> {
		let containerAt = Number.NEGATIVE_INFINITY;
		let aliveAt = Number.NEGATIVE_INFINITY;
		return async () => {
			const record = this.#files.find(id);
			if (!record) return "lost";
			if (record.exit) return "exited";
			const now = performance.now();
			const lookInside = now - aliveAt >= ALIVE_EVERY_MS;
			if (!lookInside && now - containerAt < CONTAINER_EVERY_MS) return "running";
			containerAt = now;
			if (!lookInside && (await this.#host.isRunning())) return "running";
			aliveAt = now;
			const alive = await this.#alive([record]).catch((error: unknown) => {
				// What ran in a container that was removed runs no more.
				if (isSandboxError(error, "gone")) return new Set<string>();
				throw error;
			});
			return this.#judged(record, alive).state;
		};
	}

	#notFound(asked: string): SandboxError<"not_found"> {
		return new SandboxError("not_found", `no process ${asked} in ${this.#host.name}`, {
			details: { name: this.#host.name, process: asked },
			hint: `sbx ps ${this.#host.name} or processes.list() tells which there are`,
		});
	}

	#notStarted(result: ExecResult): SandboxError {
		const reason = result.stderr.trim().slice(0, 500) || `the shell that starts it ended with ${result.exitCode}`;
		const message = `starting a process in ${this.#host.name}: ${reason}`;
		if (reason.includes("no dd or no wc"))
			return new SandboxError("unsupported", message, { details: { what: "processes" } });
		return new SandboxError("workspace_unusable", message, {
			details: { path: `${this.#host.homeInside}/.sandboxes/processes`, reason },
		});
	}
}

function toInfo({ spec, life, exit }: ProcessRecord, state: ProcessInfo["state"]): ProcessInfo {
	return Object.freeze({
		id: spec.id,
		...(spec.name === undefined ? {} : { name: spec.name }),
		command: spec.command,
		cwd: spec.cwd,
		...(life ? { pid: life.pid } : {}),
		state,
		...(exit && state === "exited" ? { exitCode: exit.exitCode, endedAt: new Date(exit.endedAtMs) } : {}),
		startedAt: new Date(spec.startedAtMs),
	});
}

/** The sandbox without its variables, for what shall not be led astray by them (PATH, IFS, LD_PRELOAD). */
function bareOf({ env: _given, containerEnv: _dropped, ...bare }: CommandTarget): CommandTarget {
	return bare;
}

/** Variables of the container whose names a shell does not hand on. */
function droppedByShells(env: Readonly<Record<string, string>> | undefined): Record<string, string> {
	return Object.fromEntries(Object.entries(env ?? {}).filter(([name]) => !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)));
}

/** One command from its start to its end, whoever decides the end: itself, the time limit, the caller, or a failure on the way. */
import type { Engine } from "../engine/engine.js";
import { sleep } from "../primitives/abort.js";
import { invalid } from "../primitives/checks.js";
import { SandboxError } from "../primitives/errors.js";
import { type Deferred, deferred } from "./deferred.js";
import { fateOf, lost, type OutputSoFar, refusalOf } from "./fate.js";
import { type InputPump, pumpInput } from "./input.js";
import { OutputKeeper } from "./output.js";
import type { ExecInput, ExecRequest, OutputListener, TerminalSize } from "./request.js";
import { type ExecResult, toResult } from "./result.js";
import type { CommandTarget, ExitedProcess, ProcessEnd, ProcessStarter, StartedProcess, TreeEnder } from "./starter.js";

/** How long the last words of a command that was ended may take to arrive. */
const LAST_WORDS_MS = 1000;
/** How long a command that is to be ended may take to tell its pid; without one its marker must do. */
const PID_MS = 1000;

const KILLED: ExitedProcess = { kind: "exited", exitCode: 137, signal: "SIGKILL" };

/** What ends a command that does not end by itself. */
type Ending = { readonly kind: "timeout" } | { readonly kind: "thrown"; readonly error: unknown };

export interface RunParts {
	readonly engine: Engine;
	readonly starter: ProcessStarter;
	readonly ender: TreeEnder;
}

export class CommandRun {
	readonly #parts: RunParts;
	readonly #target: CommandTarget;
	readonly #request: ExecRequest;
	readonly #marker: string;
	readonly #stdout: OutputKeeper;
	readonly #stderr: OutputKeeper;
	readonly #ending: Deferred<Ending> = deferred();
	readonly #process: Deferred<StartedProcess | undefined> = deferred();
	#listening = true;
	hasEnded = false;
	/** Whether another command of this process ran in the sandbox at the same time. */
	hadCompany = false;

	constructor(parts: RunParts, target: CommandTarget, request: ExecRequest, marker: string) {
		this.#parts = parts;
		this.#target = target;
		this.#request = request;
		this.#marker = marker;
		this.#stdout = new OutputKeeper(request.maxOutputBytes);
		this.#stderr = new OutputKeeper(request.maxOutputBytes);
	}

	get pid(): Promise<number | undefined> {
		return this.#process.promise.then((process) => process?.pid);
	}

	async resize(size: TerminalSize): Promise<void> {
		const process = await this.#process.promise;
		if (!this.hasEnded) await process?.resize(size);
	}

	async run(): Promise<ExecResult<string> | ExecResult<Buffer>> {
		const { signal, timeoutMs, stdin } = this.#request;
		if (signal?.aborted) {
			this.hasEnded = true;
			this.#process.resolve(undefined);
			throw signal.reason;
		}
		const startedAt = performance.now();
		const aborted = (): void => this.#ending.resolve({ kind: "thrown", error: signal?.reason });
		const timer =
			timeoutMs === undefined ? undefined : setTimeout(() => this.#ending.resolve({ kind: "timeout" }), timeoutMs);
		signal?.addEventListener("abort", aborted, { once: true });
		let process: StartedProcess | undefined;
		let pump: InputPump | undefined;
		try {
			process = await this.#start();
			this.#process.resolve(process);
			if (stdin !== undefined) {
				pump = pumpInput(stdin, process);
				pump.done.catch((error: unknown) => this.#ending.resolve({ kind: "thrown", error }));
			}
			const first = await Promise.race([process.ended, this.#ending.promise]);
			const timedOut = first.kind === "timeout";
			const end = first.kind === "timeout" || first.kind === "thrown" ? await this.#endAll(process, first) : first;
			const exited = await this.#status(process, end, timedOut);
			return toResult({
				stdout: this.#stdout,
				stderr: this.#stderr,
				exitCode: exited.exitCode,
				signal: exited.signal,
				timedOut,
				oomKilled: this.#wasHit(exited, timedOut),
				pidsExceeded: exited.pidsRefused === undefined ? undefined : exited.pidsRefused > 0,
				durationMs: performance.now() - startedAt,
				encoding: this.#request.encoding,
			});
		} finally {
			this.#listening = false;
			this.hasEnded = true;
			clearTimeout(timer);
			signal?.removeEventListener("abort", aborted);
			this.#process.resolve(undefined);
			pump?.stop();
			process?.close();
		}
	}

	async #start(): Promise<StartedProcess> {
		const { engine, starter } = this.#parts;
		const { argv, env, cwd, user, stdin, terminal } = this.#request;
		const spec = {
			argv,
			env: { ...droppedByShells(this.#target.containerEnv), ...this.#target.env, ...env },
			cwd,
			user: user ?? this.#target.user,
			stdin: stdin !== undefined,
			...(isBytes(stdin) ? { input: Buffer.from(stdin) } : {}),
			terminal,
			marker: this.#marker,
		};
		const sink = {
			onStdout: this.#listener(this.#stdout, this.#request.onStdout),
			onStderr: this.#listener(this.#stderr, this.#request.onStderr),
		};
		try {
			return await starter.start(this.#target, spec, sink);
		} catch (error) {
			throw await refusalOf(engine, this.#target, error);
		}
	}

	/** Keeps what comes and hands it to the caller's listener, whose failure ends the command. */
	#listener(keeper: OutputKeeper, listener: OutputListener | undefined): OutputListener {
		const failed = (error: unknown): void => {
			this.#listening = false;
			this.#ending.resolve({ kind: "thrown", error });
		};
		return (chunk) => {
			keeper.add(chunk);
			if (!listener || !this.#listening) return;
			try {
				const accepted = listener(chunk);
				// A listener that never answers must not hold back a command that is being ended.
				if (accepted instanceof Promise) return Promise.race([accepted.catch(failed), this.#ended()]);
			} catch (error) {
				failed(error);
			}
		};
	}

	async #ended(): Promise<void> {
		await this.#ending.promise;
	}

	/** Ends the command with all it started. Throws what ended it, unless that was the time limit. */
	async #endAll(process: StartedProcess, ending: Ending): Promise<ProcessEnd> {
		process.giveUp();
		const pid = await within(PID_MS, process.pid);
		let left: readonly number[] | undefined;
		try {
			left = await this.#parts.ender.end(this.#target, {
				marker: this.#marker,
				pid: pid ?? 0,
				user: this.#request.user ?? this.#target.user,
				graceMs: this.#request.killGraceMs,
			});
		} catch (error) {
			// No container, or none that runs: nothing is left in it.
			const refusal = await refusalOf(this.#parts.engine, this.#target, error);
			if (ending.kind === "thrown") throw ending.error;
			throw withOutput(refusal, this.#soFar());
		}
		if (left === undefined || left.length > 0) {
			const what = left
				? `processes ${left.join(", ")} of it could not be ended`
				: "it could not be ended (its image may have no sh) and may still run";
			throw lost(this.#target, this.#soFar(), what, ending.kind === "thrown" ? ending.error : undefined);
		}
		if (ending.kind === "thrown") throw ending.error;
		const end = await within(LAST_WORDS_MS, process.ended);
		return end ?? KILLED;
	}

	async #status(process: StartedProcess, end: ProcessEnd, timedOut: boolean): Promise<ExitedProcess> {
		if (end.kind === "exited") return end;
		if (end.kind === "bad_cwd") {
			const { cwd } = this.#request;
			throw new SandboxError(
				"bad_cwd",
				`running a command in ${this.#target.name}: the working directory ${cwd} does not exist or cannot be entered`,
				{ details: { name: this.#target.name, cwd }, hint: "make it first, or leave cwd out for /workspace" },
			);
		}
		if (end.kind === "refused") throw await refusalOf(this.#parts.engine, this.#target, end.error);
		if (end.kind === "no_user") {
			throw invalid("user", "a user the image knows, or uid:gid", this.#request.user ?? this.#target.user);
		}
		const error = await fateOf(this.#parts.engine, this.#target, end, this.#soFar());
		if (error.code !== "exec_lost") throw error;
		if (timedOut) return KILLED;
		// Nobody waits for it any more: it must not go on unseen.
		await this.#endAll(process, { kind: "thrown", error });
		throw error;
	}

	/** The count is the sandbox's. Where other commands ran meanwhile, those were hit that a kill ended, unless it was ours. */
	#wasHit(end: ExitedProcess, timedOut: boolean): boolean | undefined {
		if (end.oomKills === undefined) return undefined;
		return end.oomKills > 0 && (!this.hadCompany || (end.exitCode === 137 && !timedOut));
	}

	#soFar(): OutputSoFar {
		return { stdout: this.#stdout.toText().text, stderr: this.#stderr.toText().text };
	}
}

/** Whether all of an input is there already. */
function isBytes(input: ExecInput | undefined): input is string | Uint8Array {
	return typeof input === "string" || input instanceof Uint8Array;
}

function withOutput(error: unknown, output: OutputSoFar): unknown {
	if (!(error instanceof SandboxError) || (error.code !== "gone" && error.code !== "stopped")) return error;
	const details = { ...error.details, ...output } as SandboxError["details"];
	return new SandboxError(error.code, error.message, {
		details,
		...(error.hint === undefined ? {} : { hint: error.hint }),
		cause: error.cause,
	});
}

/** Variables whose names a shell does not hand on. */
function droppedByShells(env: Readonly<Record<string, string>> | undefined): Record<string, string> {
	return Object.fromEntries(Object.entries(env ?? {}).filter(([name]) => !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)));
}

/** The promise's value, or `undefined` after `ms`. Leaves no timer. */
async function within<T>(ms: number, promise: Promise<T>): Promise<T | undefined> {
	const controller = new AbortController();
	try {
		return await Promise.race([promise, sleep(ms, controller.signal).then(() => undefined)]);
	} finally {
		controller.abort();
	}
}

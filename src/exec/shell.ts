/** A shell that stays: what one command changes in it, the next one finds. */
import { randomBytes } from "node:crypto";
import { sleep } from "../primitives/abort.js";
import { SandboxError } from "../primitives/errors.js";
import { type Command, type ExecRequest, normaliseExec } from "./request.js";
import { type ExecResult, toResult } from "./result.js";
import { normaliseShellRun, type ShellRunOptions } from "./shell-request.js";
import { type RunEnd, ShellRun } from "./shell-run.js";
import { LEAVE_COMMAND, requestLine } from "./shell-script.js";
import { type Launch, SpawnedCommand } from "./spawned-command.js";
import { CANARY_VARIABLE } from "./tree-script.js";

/** How long a shell whose command has been ended may take to say so; then it is ended too. */
const LEAVE_MS = 1500;
/** How long an idle shell may take to end when it is closed. */
const CLOSE_MS = 2000;

/** How a command in a stateful shell ended. */
export interface ShellResult extends ExecResult {
	/** The shell itself has ended with it: the command was `exit`, or nothing less could end it. Later calls fail with `shell_ended`. */
	readonly shellEnded: boolean;
}

/** The sandbox a shell is in. */
export interface ShellHost {
	readonly name: string;
	readonly launch: Launch;
	/** Runs a command beside the shell. */
	run(request: ExecRequest): Promise<unknown>;
}

/**
 * A stateful shell, as `shell()` gives it. Working directory, variables, functions, options, traps and background jobs
 * live on from one `run()` to the next; redirections by a bare `exec` do not.
 *
 * It holds a connection and keeps this process alive until it is closed, or its `await using` block is left. When this process
 * dies, the shell ends with the command it runs.
 */
export class Shell implements AsyncDisposable {
	readonly #host: ShellHost;
	readonly #user: string | undefined;
	readonly #command: SpawnedCommand;
	readonly #ended: Promise<void>;
	#queue: Promise<unknown> = Promise.resolve();
	#current: ShellRun | undefined;
	#isOpen = true;

	/** @internal */
	constructor(request: ExecRequest, host: ShellHost) {
		this.#host = host;
		this.#user = request.user;
		this.#command = new SpawnedCommand(request, host.launch);
		this.#ended = this.#serve();
	}

	/** Its pid in the sandbox, 0 where that cannot be known; `undefined` when it was not started. Never rejects. */
	get pid(): Promise<number | undefined> {
		return this.#command.pid;
	}

	/** Whether it takes commands, as far as is known here. */
	get isOpen(): boolean {
		return this.#isOpen;
	}

	/**
	 * Runs a command in the shell and gives its result; calls are served one after the other. A string is text for the shell, an
	 * array a program with exactly these arguments.
	 *
	 * A time limit or an abort ends what the command has started, skips the rest of it, and leaves the shell as it was at
	 * that moment; where that does not work the shell is ended too, and the result says so (`shellEnded`). A mistake in the
	 * text is status 2 and no end. Output of background jobs that comes while no command runs is dropped: redirect it.
	 *
	 * Throws `invalid_input`, `shell_ended`, what `exec()` throws, and the signal's reason after an abort.
	 */
	async run(command: Command, options: ShellRunOptions = {}): Promise<ShellResult> {
		const { text, exec } = normaliseShellRun(command, options);
		exec.signal?.throwIfAborted();
		const turn = this.#queue.then(() => this.#run(text, exec));
		this.#queue = turn.catch(() => {});
		return turn;
	}

	/** Ends the shell. A command that runs is ended with all it started; background jobs of an idle shell go on. */
	async close(): Promise<void> {
		if (this.#isOpen && !this.#current) {
			this.#isOpen = false;
			this.#command.stdin.end();
			await within(CLOSE_MS, this.#ended);
		}
		this.#isOpen = false;
		await this.#command[Symbol.asyncDispose]();
	}

	/** As {@link close}. */
	async [Symbol.asyncDispose](): Promise<void> {
		await this.close();
	}

	async #run(text: string, request: ExecRequest): Promise<ShellResult> {
		const { signal, timeoutMs, killGraceMs } = request;
		signal?.throwIfAborted();
		if (!this.#isOpen) throw await this.#closed();
		const startedAt = performance.now();
		const run = new ShellRun(request);
		this.#current = run;
		const aborted = (): void => run.end({ kind: "thrown", error: signal?.reason });
		signal?.addEventListener("abort", aborted, { once: true });
		const timer = timeoutMs === undefined ? undefined : setTimeout(() => run.end({ kind: "timeout" }), timeoutMs);
		try {
			this.#command.stdin.write(requestLine(run.nonce, run.marker, text));
			const end = await run.over;
			if (end.kind !== "ended") await this.#leave(run, killGraceMs);
			if (end.kind === "thrown") throw end.error;
			return await this.#resultOf(run, end, performance.now() - startedAt);
		} finally {
			clearTimeout(timer);
			signal?.removeEventListener("abort", aborted);
			this.#current = undefined;
		}
	}

	async #resultOf(run: ShellRun, end: RunEnd, durationMs: number): Promise<ShellResult> {
		const timedOut = end.kind === "timeout";
		let { exitCode } = run;
		let signal: string | undefined = timedOut && exitCode === 143 ? "SIGTERM" : undefined;
		const shellEnded = exitCode === undefined;
		if (exitCode === undefined && timedOut) [exitCode, signal] = [137, "SIGKILL"];
		else if (exitCode === undefined) ({ exitCode, signal } = await this.#lastStatus(run));
		const { stdout, stderr } = run;
		const untold = { oomKilled: undefined, pidsExceeded: undefined };
		const parts = { stdout, stderr, exitCode, signal, timedOut, ...untold, durationMs, encoding: "utf8" } as const;
		return Object.freeze({ ...(toResult(parts) as ExecResult), shellEnded });
	}

	/** How the shell ended under a command: by `exit`, or with its container. */
	async #lastStatus(run: ShellRun): Promise<{ exitCode: number; signal: string | undefined }> {
		try {
			const { exitCode, signal } = await this.#command.wait();
			return { exitCode, signal };
		} catch (error) {
			if (!(error instanceof SandboxError) || !("stdout" in error.details)) throw error;
			const output = { stdout: run.stdout.toText().text, stderr: run.stderr.toText().text };
			throw new SandboxError(error.code, error.message, {
				details: { ...error.details, ...output } as SandboxError["details"],
				...(error.hint === undefined ? {} : { hint: error.hint }),
				cause: error.cause,
			});
		}
	}

	/** Ends what the command has started and makes the shell leave it; where that does not work, ends the shell. */
	async #leave(run: ShellRun, graceMs: number): Promise<void> {
		const pid = await this.#command.pid;
		if (pid && this.#isOpen) {
			const canary = randomBytes(16).toString("hex");
			const grace = String(Math.ceil(graceMs / 10));
			const argv = ["sh", "-c", LEAVE_COMMAND, "sbx-end", run.marker, String(pid), grace, run.jobs, canary];
			const request = normaliseExec(argv, {
				env: { [CANARY_VARIABLE]: canary },
				cwd: "/",
				user: this.#user,
				timeoutMs: graceMs + 10_000,
			});
			// A shell that did not hear it is ended below.
			await this.#host.run(request).catch(() => {});
			await within(LEAVE_MS, Promise.race([run.ended, this.#ended]));
			if (run.exitCode !== undefined) return;
		}
		this.#isOpen = false;
		await this.#command[Symbol.asyncDispose]();
		await this.#ended;
	}

	/** Hands output to the command that runs, until the shell has ended. */
	async #serve(): Promise<void> {
		const read = async (stream: "stdout" | "stderr"): Promise<void> => {
			for await (const chunk of this.#command[stream]) await this.#current?.take(stream, chunk);
		};
		await Promise.all([read("stdout"), read("stderr")]).catch(() => {});
		this.#isOpen = false;
		await this.#current?.flush();
	}

	async #closed(): Promise<SandboxError> {
		// A shell that never was says why; one that was closed or ended by `exit` has nothing more to say.
		const why = await this.#command.wait().then(
			() => undefined,
			(error: unknown) => (error instanceof SandboxError ? error : undefined),
		);
		if (why) return why;
		return new SandboxError("shell_ended", `running a command in a shell of ${this.#host.name}: the shell has ended`, {
			details: { name: this.#host.name },
			hint: "open another with shell()",
		});
	}
}

/** Waits for the promise, but no longer than `ms`. Leaves no timer. */
async function within(ms: number, promise: Promise<unknown>): Promise<void> {
	const controller = new AbortController();
	await Promise.race([promise, sleep(ms, controller.signal).catch(() => {})]);
	controller.abort();
}

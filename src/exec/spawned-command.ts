/** A running command as a handle: its streams, its pid, its end. */
import { Readable, Writable } from "node:stream";
import type { ReadableStream, WritableStream } from "node:stream/web";
import type { RunningCommand } from "./commands.js";
import type { ExecRequest, TerminalSize } from "./request.js";
import type { ExecResult } from "./result.js";
import { checkedStream } from "./spawned-request.js";
import { type InputBridge, inputBridge, linesOf, type OutputBridge, outputBridge } from "./spawned-streams.js";

/** A longer line comes in pieces of this size. */
const MAX_LINE_BYTES = 1024 * 1024;

/** Starts the command of a request, once all that must be known first is known. */
export type Launch = (request: ExecRequest) => Promise<RunningCommand>;

/** The streams of a command as web streams. */
export interface WebStreams {
	readonly stdin: WritableStream<Uint8Array>;
	readonly stdout: ReadableStream<Uint8Array>;
	readonly stderr: ReadableStream<Uint8Array>;
}

/**
 * A command that runs, as `spawn()` gives it.
 *
 * `stdout` and `stderr` hold the command back when they are not read, as a pipe would; both come over one connection, so that
 * one that is never read holds up the other. Call `wait()` once the reading has begun: from then on what nobody reads goes by.
 * Leaving an `await using` block ends the command with all it started; dropping the handle does not, and the
 * command keeps this process alive until it has ended. When this process dies, the command goes on without readers.
 */
export class SpawnedCommand implements AsyncDisposable {
	/** What the command reads. End it: a command that reads to the end waits for that. Destroyed when the command has ended. */
	readonly stdin: Writable;
	/** Ends when the command has; on a terminal it holds everything. */
	readonly stdout: Readable;
	readonly stderr: Readable;
	/** Its pid in the sandbox once it runs, 0 where that cannot be known; `undefined` when it was not started. Never rejects. */
	readonly pid: Promise<number | undefined>;
	readonly #input: InputBridge;
	readonly #out: OutputBridge = outputBridge();
	readonly #err: OutputBridge = outputBridge();
	readonly #disposal = new AbortController();
	readonly #running: Promise<RunningCommand>;
	readonly #result: Promise<ExecResult>;

	/** @internal */
	constructor(request: ExecRequest, launch: Launch) {
		this.#input = inputBridge();
		this.stdin = this.#input.stream;
		this.stdout = this.#out.stream;
		this.stderr = this.#err.stream;
		if (request.stdin !== undefined) this.stdin.destroy();
		const { signal } = request;
		const aborted = (): void => this.#disposal.abort(signal?.reason);
		signal?.addEventListener("abort", aborted, { once: true });
		if (signal?.aborted) aborted();
		this.#running = launch({
			...request,
			stdin: request.stdin ?? this.#input.input,
			signal: this.#disposal.signal,
			onStdout: (chunk) => this.#out.push(chunk),
			onStderr: (chunk) => this.#err.push(chunk),
			encoding: "utf8",
		});
		this.pid = this.#running.then(
			(running) => running.pid,
			() => undefined,
		);
		this.#result = this.#running
			.then((running) => running.result as Promise<ExecResult>)
			.finally(() => {
				signal?.removeEventListener("abort", aborted);
				this.stdin.destroy();
				this.#out.end();
				this.#err.end();
			});
		// Told by wait() to whoever asks.
		this.#result.catch(() => {});
	}

	/**
	 * How the command ended, with the beginning and the end of what it wrote (`maxOutputBytes`). A status other than 0 is a result.
	 * Output that nobody has begun to read by now is let go by. Rejects as `exec()` does. May be called at any time and again.
	 */
	async wait(): Promise<ExecResult> {
		// A turn later, for what is read in the same breath: `const end = command.wait(); for await (… of command.stdout)`.
		setImmediate(() => {
			this.#out.drainIfUnread();
			this.#err.drainIfUnread();
		});
		return this.#result;
	}

	/**
	 * The lines of one stream as they come, as text without their ends. After the last one it throws what `wait()` would throw.
	 * A line over 1 MiB comes in pieces. Leaving the loop lets the rest go by; the command goes on.
	 */
	lines(stream: "stdout" | "stderr" = "stdout"): AsyncGenerator<string> {
		const bridge = checkedStream(stream) === "stdout" ? this.#out : this.#err;
		bridge.claim();
		return this.#lines(bridge.stream);
	}

	/** Sends a signal (`"TERM"`, the default, `"SIGINT"` …) to the command's process group; `false` when it has ended. */
	async kill(signalName = "TERM"): Promise<boolean> {
		const running = await this.#running.catch(() => undefined);
		return running ? running.kill(signalName) : false;
	}

	/** Tells the command's terminal a new size. Does nothing where there is none. */
	async resize(size: TerminalSize): Promise<void> {
		const running = await this.#running.catch(() => undefined);
		await running?.resize(size);
	}

	/** The same streams as web streams. Use one kind or the other. */
	toWeb(): WebStreams {
		return {
			stdin: Writable.toWeb(this.stdin) as WritableStream<Uint8Array>,
			stdout: Readable.toWeb(this.stdout) as ReadableStream<Uint8Array>,
			stderr: Readable.toWeb(this.stderr) as ReadableStream<Uint8Array>,
		};
	}

	/** Ends the command with all it started, if it still runs. `wait()` then rejects with an `AbortError`. */
	async [Symbol.asyncDispose](): Promise<void> {
		this.#disposal.abort();
		await this.#result.catch(() => {});
	}

	async *#lines(stream: Readable): AsyncGenerator<string> {
		yield* linesOf(stream, MAX_LINE_BYTES);
		await this.#result;
	}
}

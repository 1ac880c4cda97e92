/** A command on a terminal of its own: what is typed goes in, what is shown comes out. */
import type { ExecRequest, TerminalSize } from "./request.js";
import type { ExecResult } from "./result.js";
import { type Launch, SpawnedCommand } from "./spawned-command.js";

/**
 * A terminal with a command on it, as `terminal()` gives it.
 *
 * What the command shows is bytes: text with the control sequences of the terminal. It is either iterated over or listened to, and held back when
 * it is not. Leaving an `await using` block ends the command with all it started.
 */
export class Terminal implements AsyncDisposable {
	readonly #command: SpawnedCommand;

	/** @internal */
	constructor(request: ExecRequest, launch: Launch) {
		this.#command = new SpawnedCommand(request, launch);
	}

	/** The command's pid in the sandbox. Never rejects. */
	get pid(): Promise<number | undefined> {
		return this.#command.pid;
	}

	/** Types text or bytes (`"\x03"` is Ctrl-C, `"\x04"` the end of input). Resolves when it is accepted, or dropped after the end. */
	async write(data: string | Uint8Array): Promise<void> {
		await new Promise<void>((resolve) => {
			// A terminal that has ended takes nothing more, and that is no failure of the typist.
			this.#command.stdin.write(data, () => resolve());
		});
	}

	/** Hands over what is shown, as it comes, until the command ends or the returned function is called. */
	onData(listener: (chunk: Buffer) => void): () => void {
		this.#command.stdout.on("data", listener);
		return () => void this.#command.stdout.off("data", listener);
	}

	/** What is shown, as it comes, to the end. */
	[Symbol.asyncIterator](): AsyncIterableIterator<Buffer> {
		return this.#command.stdout[Symbol.asyncIterator]() as AsyncIterableIterator<Buffer>;
	}

	/** Tells the terminal a new size. */
	async resize(size: TerminalSize): Promise<void> {
		await this.#command.resize(size);
	}

	/** How the command ended; `stdout` and `stderr` of the result are empty. What nobody has begun to read by now is let go by. */
	async wait(): Promise<ExecResult> {
		return this.#command.wait();
	}

	/** Sends a signal to the command's process group; `false` when it has ended. */
	async kill(signalName = "HUP"): Promise<boolean> {
		return this.#command.kill(signalName);
	}

	/** Ends the command with all it started, if it still runs. */
	async [Symbol.asyncDispose](): Promise<void> {
		await this.#command[Symbol.asyncDispose]();
	}
}

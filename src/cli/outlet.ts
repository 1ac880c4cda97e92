/** One output stream with back-pressure, that goes quiet when nothing can be written to it any more. */
import type { Output } from "./io.js";

/** The reader has gone away. */
export class BrokenPipe extends Error {
	override readonly name = "BrokenPipe";
}

/** The output could not be written: a full disk, for example. */
export class WriteFailed extends Error {
	override readonly name = "WriteFailed";
}

/** EPIPE and ECONNRESET when a pipe's reader ended, EIO when a terminal was closed. */
const READER_GONE: readonly unknown[] = ["EPIPE", "ECONNRESET", "EIO"];

export interface OutletOptions {
	/** Makes the stream, when it is first needed: that costs as much as a short answer. */
	readonly open: () => Output;
	/** Writes a text at once where that is possible, and says whether it was; tried while the stream is not yet made. */
	readonly writeAtOnce?: (text: string) => boolean;
	/** Told when nobody reads any more, or when what was written is lost. */
	readonly onClosed?: (reason: BrokenPipe | WriteFailed) => void;
}

export class Outlet {
	readonly #options: OutletOptions;
	#stream: Output | undefined;
	#closed = false;
	#failure: WriteFailed | undefined;
	readonly #waiting = new Set<() => void>();

	constructor(options: OutletOptions) {
		this.#options = options;
	}

	/** Why something that was written is lost, though there is a reader. */
	get failure(): WriteFailed | undefined {
		return this.#failure;
	}

	get isTerminal(): boolean {
		return this.#open().isTTY === true;
	}

	get columns(): number | undefined {
		return this.#open().columns;
	}

	/** Resolves when more may be written, or the signal aborts. What is written after the reader went away is dropped. */
	async write(data: string | Uint8Array, signal?: AbortSignal): Promise<void> {
		if (this.#closed || data.length === 0) return;
		if (!this.#stream && typeof data === "string" && this.#options.writeAtOnce?.(data)) return;
		const stream = this.#open();
		if (stream.write(data) || signal?.aborted) return;
		await this.#until((done) => {
			stream.once("drain", done);
			signal?.addEventListener("abort", done, { once: true });
			return () => {
				stream.off("drain", done);
				signal?.removeEventListener("abort", done);
			};
		});
	}

	/** Resolves when all that was written has left the process, or nobody reads it. */
	async flush(): Promise<void> {
		const stream = this.#stream;
		if (this.#closed || !stream) return;
		// An error is told one turn after the write that failed.
		await new Promise((resolve) => setImmediate(resolve));
		if (this.#closed || stream.writableLength === 0) return;
		await this.#until((done) => {
			stream.write("", done);
			return () => {};
		});
	}

	#open(): Output {
		if (this.#stream) return this.#stream;
		this.#stream = this.#options.open();
		this.#stream.on("error", (error) => this.#close(error));
		return this.#stream;
	}

	#close(error: NodeJS.ErrnoException): void {
		if (this.#closed) return;
		this.#closed = true;
		if (!READER_GONE.includes(error.code)) {
			this.#failure = new WriteFailed(`the output could not be written: ${error.message}`);
		}
		this.#options.onClosed?.(this.#failure ?? new BrokenPipe("nobody reads the output"));
		for (const done of this.#waiting) done();
	}

	#until(arrange: (done: () => void) => () => void): Promise<void> {
		return new Promise((resolve) => {
			const done = (): void => {
				release();
				this.#waiting.delete(done);
				resolve();
			};
			const release = arrange(done);
			this.#waiting.add(done);
		});
	}
}

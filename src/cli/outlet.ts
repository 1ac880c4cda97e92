/** One output stream with back-pressure, that goes quiet when nobody reads it any more. */
import type { Output } from "./io.js";

/** The reader has gone away. */
export class BrokenPipe extends Error {
	override readonly name = "BrokenPipe";
}

export class Outlet {
	readonly #stream: Output;
	readonly #closed = new AbortController();

	constructor(stream: Output) {
		this.#stream = stream;
		// EPIPE when a pipe's reader ended, EIO when a terminal was closed: both mean that nobody reads.
		stream.on("error", this.#close);
	}

	/** Aborts, with a {@link BrokenPipe} for a reason, when nobody reads any more. */
	get closed(): AbortSignal {
		return this.#closed.signal;
	}

	get isTerminal(): boolean {
		return this.#stream.isTTY === true;
	}

	get columns(): number | undefined {
		return this.#stream.columns;
	}

	get rows(): number | undefined {
		return this.#stream.rows;
	}

	/** Resolves when more may be written. What is written after the reader went away is dropped. */
	async write(data: string | Uint8Array): Promise<void> {
		if (this.#closed.signal.aborted || data.length === 0 || this.#stream.write(data)) return;
		await this.#until((done) => {
			this.#stream.once("drain", done);
			return () => this.#stream.off("drain", done);
		});
	}

	/** Resolves when all that was written has left the process, or nobody reads it. */
	async flush(): Promise<void> {
		if (this.#closed.signal.aborted || this.#stream.writableLength === 0) return;
		await this.#until((done) => {
			this.#stream.write("", done);
			return () => {};
		});
	}

	/** Lets go of the stream. */
	dispose(): void {
		this.#stream.off("error", this.#close);
		// A late EPIPE of bytes still under way is nobody's failure.
		this.#stream.on("error", () => {});
	}

	readonly #close = (): void => this.#closed.abort(new BrokenPipe("nobody reads the output"));

	#until(arrange: (done: () => void) => () => void): Promise<void> {
		return new Promise((resolve) => {
			const done = (): void => {
				release();
				this.#closed.signal.removeEventListener("abort", done);
				resolve();
			};
			const release = arrange(done);
			this.#closed.signal.addEventListener("abort", done, { once: true });
		});
	}
}

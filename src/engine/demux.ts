/**
 * Takes the engine's multiplexed output apart: frames of an 8-byte header (stream, 0, 0, 0, length) and their payload.
 * Linear in the bytes, copies nothing, holds back at most one header.
 */
import type { ExecSink } from "./engine.js";

const HEADER_BYTES = 8;
/** A frame in which the engine itself speaks of a failure; it is short. */
const MAX_ENGINE_ERROR_BYTES = 64 * 1024;

export class DemuxError extends Error {
	override readonly name = "DemuxError";
}

export class Demuxer {
	readonly #sink: ExecSink;
	readonly #header = Buffer.alloc(HEADER_BYTES);
	#headerBytes = 0;
	#stream = 0;
	#missing = 0;
	#engineError = "";

	constructor(sink: ExecSink) {
		this.#sink = sink;
	}

	/** Whether the bytes so far end with a whole frame. */
	get atBoundary(): boolean {
		return this.#headerBytes === 0 && this.#missing === 0;
	}

	/**
	 * Takes the next bytes and hands their payload on, in order. Where the sink gives a promise, so does this:
	 * nothing may be pushed until it settles. The sink gets views of `chunk`, which must not be changed afterwards.
	 */
	push(chunk: Buffer): void | Promise<void> {
		let offset = 0;
		while (offset < chunk.length) {
			const held = this.#step(chunk, offset);
			offset += this.#taken;
			if (held) return this.#pushHeld(held, chunk, offset);
		}
	}

	/** The end of the stream. Throws where it falls inside a frame, or the engine spoke of a failure. */
	end(): void {
		if (this.#engineError !== "") throw new DemuxError(this.#engineError);
		if (!this.atBoundary) throw new DemuxError("the output ends in the middle of a frame");
	}

	/** The rest of a chunk behind a sink that holds back: a loop, so that many frames make no chain of promises. */
	async #pushHeld(held: Promise<void>, chunk: Buffer, from: number): Promise<void> {
		await held;
		for (let offset = from; offset < chunk.length; ) {
			const next = this.#step(chunk, offset);
			offset += this.#taken;
			if (next) await next;
		}
	}

	/** How many bytes the last step took. */
	#taken = 0;

	#step(chunk: Buffer, offset: number): void | Promise<void> {
		if (this.#missing > 0) return this.#payload(chunk, offset);
		const wanted = Math.min(HEADER_BYTES - this.#headerBytes, chunk.length - offset);
		chunk.copy(this.#header, this.#headerBytes, offset, offset + wanted);
		this.#taken = wanted;
		this.#headerBytes += wanted;
		if (this.#headerBytes < HEADER_BYTES) return;
		this.#headerBytes = 0;
		this.#stream = this.#header.readUInt8(0);
		this.#missing = this.#header.readUInt32BE(4);
		if (this.#stream > 3 || this.#header.readUIntBE(1, 3) !== 0)
			throw new DemuxError("the output is not in the form of frames");
	}

	#payload(chunk: Buffer, offset: number): void | Promise<void> {
		const part = chunk.subarray(offset, offset + this.#missing);
		this.#taken = part.length;
		this.#missing -= part.length;
		if (this.#stream === 2) return this.#sink.onStderr(part);
		if (this.#stream !== 3) return this.#sink.onStdout(part);
		if (this.#engineError.length < MAX_ENGINE_ERROR_BYTES) this.#engineError += part.toString("utf8");
	}
}

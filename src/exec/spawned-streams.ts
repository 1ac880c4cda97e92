/** A command's streams as Node streams: both ways with back-pressure, and dropped without an error when nobody is at the other end. */
import { Readable, Writable } from "node:stream";

const HIGH_WATER_BYTES = 64 * 1024;

/** What is written to a command, and the same as the input that is carried to it. */
export interface InputBridge {
	readonly stream: Writable;
	readonly input: AsyncIterable<Uint8Array>;
}

/**
 * A writable stream whose chunks are taken one by one. A chunk counts as written once the next one is asked for, that is, when
 * the command's side has accepted it. When the taker stops, the stream is destroyed: nobody reads any more.
 */
export function inputBridge(): InputBridge {
	interface Waiting {
		readonly chunk: Uint8Array;
		readonly accepted: () => void;
	}
	let next: Waiting | undefined;
	let handedOver: Waiting | undefined;
	let ended = false;
	let wake: () => void = () => {};
	const stream = new Writable({
		highWaterMark: HIGH_WATER_BYTES,
		write(chunk: Buffer, _encoding, accepted) {
			next = { chunk, accepted };
			wake();
		},
		final(done) {
			ended = true;
			wake();
			done();
		},
		destroy(error, done) {
			ended = true;
			wake();
			done(error);
		},
	});
	// Whoever writes to a command that has ended is told by the callback of its write, not by an exception out of nowhere.
	stream.on("error", () => {});
	const iterator: AsyncIterator<Uint8Array> = {
		async next() {
			handedOver?.accepted();
			handedOver = undefined;
			while (!next && !ended) {
				await new Promise<void>((resolve) => {
					wake = resolve;
				});
			}
			if (!next) return { done: true, value: undefined };
			handedOver = next;
			next = undefined;
			return { done: false, value: handedOver.chunk };
		},
		async return() {
			stream.destroy();
			return { done: true, value: undefined };
		},
	};
	return { stream, input: { [Symbol.asyncIterator]: () => iterator } };
}

/** Output on its way to a reader. */
export interface OutputBridge {
	readonly stream: Readable;
	/** Hands a chunk over; the promise settles when the reader has room again, or will never read. */
	push(chunk: Buffer): void | Promise<void>;
	end(): void;
	/** Lets the output go by if nobody has begun to read it. */
	drainIfUnread(): void;
	/** Somebody is going to read, though not yet. */
	claim(): void;
}

export function outputBridge(): OutputBridge {
	let resume: () => void = () => {};
	let claimed = false;
	const stream = new Readable({
		highWaterMark: HIGH_WATER_BYTES,
		read: () => resume(),
		destroy(error, done) {
			resume();
			done(error);
		},
	});
	return {
		stream,
		push(chunk) {
			if (stream.destroyed) return;
			if (stream.push(chunk)) return;
			return new Promise<void>((resolve) => {
				resume = resolve;
			});
		},
		end: () => void (stream.destroyed || stream.push(null)),
		drainIfUnread() {
			if (!claimed && stream.readableFlowing === null && stream.listenerCount("readable") === 0) stream.resume();
		},
		claim: () => {
			claimed = true;
		},
	};
}

const NEWLINE = 0x0a;
const RETURN = 0x0d;

/**
 * Text lines of a byte stream, without their ends (`\n` or `\r\n`). A last line without an end is a line too, and a line
 * longer than `maxLineBytes` comes in pieces of that size.
 */
export async function* linesOf(stream: AsyncIterable<Buffer>, maxLineBytes: number): AsyncGenerator<string> {
	let held: Buffer[] = [];
	let heldBytes = 0;
	const take = (last: Buffer): Buffer => {
		const line = held.length === 0 ? last : Buffer.concat([...held, last]);
		held = [];
		heldBytes = 0;
		return line;
	};
	for await (const chunk of stream) {
		let from = 0;
		for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
			const line = take(chunk.subarray(from, at));
			yield line.toString("utf8", 0, line.at(-1) === RETURN ? line.length - 1 : line.length);
			from = at + 1;
		}
		let rest = chunk.subarray(from);
		while (heldBytes + rest.length > maxLineBytes) {
			const room = maxLineBytes - heldBytes;
			yield take(rest.subarray(0, room)).toString();
			rest = rest.subarray(room);
		}
		if (rest.length > 0) {
			held.push(rest);
			heldBytes += rest.length;
		}
	}
	if (heldBytes > 0) yield take(Buffer.alloc(0)).toString();
}

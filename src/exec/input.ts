/** Carries what a command may read to it, for as long as it reads. */
import type { ExecInput } from "./request.js";
import type { StartedProcess } from "./starter.js";

const SLICE_BYTES = 256 * 1024;

/** A running transfer of input. */
export interface InputPump {
	/** Rejects when the source fails or gives something that is neither text nor bytes. */
	readonly done: Promise<void>;
	/** The command no longer reads: the source is told to end, and not waited for. */
	stop(): void;
}

/** Hands the input over piece by piece, then the end of it. */
export function pumpInput(input: ExecInput, process: StartedProcess): InputPump {
	const iterator = pieces(input)[Symbol.asyncIterator]();
	let stopped = false;
	const run = async (): Promise<void> => {
		while (!stopped) {
			const next = await iterator.next();
			if (stopped || next.done) break;
			await process.write(toBytes(next.value));
		}
		if (!stopped) await process.endInput();
	};
	return {
		done: run(),
		stop: () => {
			if (stopped) return;
			stopped = true;
			// A source that waits for its next piece answers late or never; nobody listens any more.
			Promise.resolve(iterator.return?.()).catch(() => {});
		},
	};
}

async function* slices(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
	for (let from = 0; from < bytes.length; from += SLICE_BYTES) yield bytes.subarray(from, from + SLICE_BYTES);
}

function pieces(input: ExecInput): AsyncIterable<unknown> {
	if (typeof input === "string") return slices(Buffer.from(input));
	if (input instanceof Uint8Array) return slices(input);
	if (Symbol.asyncIterator in input) return input as AsyncIterable<unknown>;
	return readerPieces(input);
}

async function* readerPieces(stream: ReadableStream<string | Uint8Array>): AsyncGenerator<unknown> {
	const reader = stream.getReader();
	try {
		for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
	} finally {
		reader.cancel().catch(() => {});
	}
}

function toBytes(piece: unknown): Uint8Array {
	if (typeof piece === "string") return Buffer.from(piece);
	if (piece instanceof Uint8Array) return piece;
	throw new TypeError(`stdin: a stream of strings or bytes gave a value of type ${typeof piece}`);
}

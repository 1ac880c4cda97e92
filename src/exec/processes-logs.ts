/** Reads the kept output of a background process, once or for as long as it runs. */
import { sleep } from "../primitives/abort.js";
import type { LogStream, ProcessFiles } from "./processes-files.js";
import type { LogsOptions } from "./processes-request.js";

const CHUNK_BYTES = 64 * 1024;
const STREAMS: readonly LogStream[] = ["stdout", "stderr"];
/** How long a follower waits between looks: shorter after something came. */
const MIN_WAIT_MS = 20;
const MAX_WAIT_MS = 250;

/** A piece of output of a background process. */
export interface LogChunk {
	readonly stream: LogStream;
	readonly chunk: Buffer;
	/** The number of its first byte in the stream. More than the bytes seen so far: what is missing is no longer kept. */
	readonly atByte: number;
}

/**
 * The output of one process. The order between the two streams is that in which it was found, which is not always that in which
 * it was written. `isOver` is asked while following, as often as it likes to be.
 */
export async function* readLogs(
	files: ProcessFiles,
	id: string,
	options: LogsOptions,
	isOver: () => Promise<boolean>,
): AsyncGenerator<LogChunk> {
	const { follow = false, tail, signal } = options;
	const next = { stdout: 0, stderr: 0 };
	const last = { stdout: Number.POSITIVE_INFINITY, stderr: Number.POSITIVE_INFINITY };
	for (const stream of STREAMS) {
		const extent = files.extent(id, stream);
		if (!follow) last[stream] = extent?.to ?? 0;
		if (extent && tail !== undefined) next[stream] = lastLines(files, id, stream, extent, tail);
	}
	for (let wait = MIN_WAIT_MS; ; ) {
		signal?.throwIfAborted();
		// Asked before the look, so that the look after the end sees everything.
		const over = !follow || (await isOver());
		let any = false;
		for (let more = true; more; ) {
			more = false;
			for (const stream of STREAMS) {
				const room = Math.min(CHUNK_BYTES, last[stream] - next[stream]);
				const found = room > 0 ? files.read(id, stream, next[stream], room) : undefined;
				if (!found || found.atByte >= last[stream]) continue;
				next[stream] = found.atByte + found.chunk.length;
				more = any = true;
				yield { stream, ...found };
				signal?.throwIfAborted();
			}
		}
		if (over) return;
		wait = any ? MIN_WAIT_MS : Math.min(wait * 2, MAX_WAIT_MS);
		await sleep(wait, signal);
	}
}

/** Where the last `count` lines begin. An unfinished last line counts. */
function lastLines(
	files: ProcessFiles,
	id: string,
	stream: LogStream,
	extent: { readonly from: number; readonly to: number },
	count: number,
): number {
	if (count === 0) return extent.to;
	let wanted = count;
	for (let to = extent.to; to > extent.from; ) {
		const from = Math.max(extent.from, to - CHUNK_BYTES);
		const found = files.read(id, stream, from, to - from);
		// A file that shrank meanwhile, or a part that has just been given up.
		if (!found || found.atByte >= to) return extent.from;
		// A piece ends where its file does: the rest of the range is in the next one.
		const bytes = gather(files, id, stream, found, to);
		for (let at = bytes.length - 1; at >= 0; at--) {
			if (bytes[at] !== 0x0a || found.atByte + at === extent.to - 1) continue;
			wanted--;
			if (wanted === 0) return found.atByte + at + 1;
		}
		if (found.atByte > from) return found.atByte;
		to = from;
	}
	return extent.from;
}

function gather(
	files: ProcessFiles,
	id: string,
	stream: LogStream,
	first: { readonly atByte: number; readonly chunk: Buffer },
	to: number,
): Buffer {
	const pieces = [first.chunk];
	for (let at = first.atByte + first.chunk.length; at < to; ) {
		const found = files.read(id, stream, at, to - at);
		if (!found || found.atByte !== at) break;
		pieces.push(found.chunk);
		at += found.chunk.length;
	}
	return Buffer.concat(pieces);
}

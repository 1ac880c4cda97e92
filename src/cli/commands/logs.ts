/** `sbx logs NAME ID`: the output of a background process, as it is kept or as it comes. */
import type { LogChunk } from "../../index.js";
import { refuse, wholeOf } from "../arguments.js";
import type { Session } from "../session.js";
import { type Call, type CommandSpec, command } from "../spec.js";
import { STATUS } from "../statuses.js";

interface LogsFlags {
	readonly follow?: boolean;
	readonly tail?: number;
}

/** As much of each stream goes into an answer in JSON: its end. */
const MAX_JSON_BYTES = 16 * 1024 * 1024;

export const logsCommand: CommandSpec = command<LogsFlags>({
	name: "logs",
	description: "print what a background process of the sandbox NAME has written",
	arguments: [
		{ form: "<name>", description: "name of the sandbox" },
		{ form: "<id>", description: "id or name of the process" },
	],
	options: [
		{ flags: "-f, --follow", description: "go on with what comes, until the process has ended" },
		{
			flags: "-n, --tail <lines>",
			description: "begin with the last so many lines of each stream (default: with all that is kept)",
			parse: wholeOf("--tail"),
		},
	],
	handler: printLogs,
});

async function printLogs({ session, names: [name = "", id = ""], flags }: Call<LogsFlags>): Promise<number> {
	if (flags.follow && session.json) throw refuse("--follow", "no --json, which is one answer at the end", "--json");
	const { signal } = session;
	const { processes } = await session.sandboxes.get(name, { signal });
	const tail = flags.tail === undefined ? {} : { tail: flags.tail };
	const chunks = processes.logs(id, { signal, follow: flags.follow === true, ...tail });
	const gaps = new Gaps(flags.tail === undefined);
	await (session.json ? collect(session, chunks, gaps) : stream(session, id, chunks, gaps));
	return STATUS.ok;
}

/** Hands both streams on, byte for byte, at the reader's pace. */
async function stream(session: Session, id: string, chunks: AsyncIterable<LogChunk>, gaps: Gaps): Promise<void> {
	const outlets = { stdout: session.out, stderr: session.err };
	for await (const part of chunks) {
		const lost = gaps.before(part);
		if (lost > 0) session.note(`${id}: ${lost} bytes of its ${part.stream} are not kept any more`);
		await outlets[part.stream].write(part.chunk, session.signal);
		await nextTurn();
	}
}

async function collect(session: Session, chunks: AsyncIterable<LogChunk>, gaps: Gaps): Promise<void> {
	const kept = { stdout: new Ending(), stderr: new Ending() };
	let truncated = false;
	for await (const part of chunks) {
		if (gaps.before(part) > 0) truncated = true;
		kept[part.stream].push(part.chunk);
		await nextTurn();
	}
	const { stdout, stderr } = kept;
	truncated ||= stdout.isCut || stderr.isCut;
	await session.answer("", { stdout: stdout.toString(), stderr: stderr.toString(), truncated });
}

/** Gives signals time to be heard: reading and writing files takes no turn of the event loop. */
function nextTurn(): Promise<void> {
	return new Promise((resolve) => setImmediate(resolve));
}

/** Finds bytes that are missing between two chunks of a stream. */
class Gaps {
	readonly #next: Record<LogChunk["stream"], number | undefined>;

	/** Whether the first chunks are to be the beginning. */
	constructor(fromStart: boolean) {
		const first = fromStart ? 0 : undefined;
		this.#next = { stdout: first, stderr: first };
	}

	/** How many bytes are missing before this chunk. */
	before({ stream, chunk, atByte }: LogChunk): number {
		const expected = this.#next[stream] ?? atByte;
		this.#next[stream] = atByte + chunk.length;
		return atByte - expected;
	}
}

/** The end of a stream. */
class Ending {
	readonly #chunks: Buffer[] = [];
	#bytes = 0;
	isCut = false;

	push(chunk: Buffer): void {
		this.#chunks.push(chunk);
		this.#bytes += chunk.length;
		while (this.#bytes > MAX_JSON_BYTES) {
			this.#bytes -= this.#chunks.shift()?.length ?? 0;
			this.isCut = true;
		}
	}

	toString(): string {
		return Buffer.concat(this.#chunks).toString();
	}
}

/** Reads one HTTP/1.x answer from chunks as they come, within bounds. Knows nothing of sockets or of the engine. */

/** The bytes are not an HTTP answer, or not one within the bounds. */
export class HttpFormatError extends Error {
	override readonly name = "HttpFormatError";
	/** Whether it was well so far, and ended too early. */
	readonly cutOff: boolean;

	constructor(message: string, cutOff = false) {
		super(message);
		this.cutOff = cutOff;
	}
}

export interface ResponseHead {
	readonly status: number;
	/** Names in lower case; of a name that comes twice the last counts. */
	readonly headers: ReadonlyMap<string, string>;
}

export interface ResponseReaderOptions {
	/** Whether the request was a HEAD, whose answer has no body whatever its headers say. */
	readonly headOnly: boolean;
	readonly maxHeadBytes: number;
	readonly maxBodyBytes: number;
	/** Called once, before any of the body is read. What it throws ends the call. */
	readonly onHead?: ((head: ResponseHead) => void) | undefined;
}

const MAX_CHUNK_LINE_BYTES = 1024;
const CRLF = Buffer.from("\r\n");
const HEAD_END = Buffer.from("\r\n\r\n");
const EMPTY: Buffer = Buffer.alloc(0);

type State = "head" | "counted" | "chunk-line" | "chunk-data" | "chunk-end" | "trailer" | "until-close" | "done";

export class ResponseReader {
	readonly #options: ResponseReaderOptions;
	#state: State = "head";
	#head: ResponseHead | undefined;
	/** Bytes of an unfinished head or line. */
	#pending: Buffer = EMPTY;
	/** Bytes still to come of a counted body or of a chunk. */
	#missing = 0;
	#body: Buffer[] = [];
	#bodyBytes = 0;

	constructor(options: ResponseReaderOptions) {
		this.#options = options;
	}

	get head(): ResponseHead | undefined {
		return this.#head;
	}

	get done(): boolean {
		return this.#state === "done";
	}

	body(): Buffer {
		const [first] = this.#body;
		return this.#body.length === 1 && first ? first : Buffer.concat(this.#body, this.#bodyBytes);
	}

	/** Takes the next bytes, and returns those behind the answer's end: after a switch of protocols, the stream's first. */
	push(chunk: Buffer): Buffer {
		let rest = chunk;
		while (rest.length > 0 && this.#state !== "done") {
			switch (this.#state) {
				case "head":
					rest = this.#readHead(rest);
					break;
				case "counted":
					rest = this.#readCounted(rest, "done");
					break;
				case "chunk-data":
					rest = this.#readCounted(rest, "chunk-end");
					break;
				case "until-close":
					this.#keep(rest);
					rest = EMPTY;
					break;
				default:
					rest = this.#readLine(rest);
			}
		}
		return rest;
	}

	/** The other side sends no more. Completes a body that lasts until then; anything else unfinished is refused. */
	end(): void {
		if (this.#state === "until-close") this.#state = "done";
		if (this.#state !== "done")
			throw new HttpFormatError(
				this.#head
					? "the connection was closed in the middle of the answer"
					: "the connection was closed without an answer",
				true,
			);
	}

	#readHead(chunk: Buffer): Buffer {
		const from = Math.max(0, this.#pending.length - HEAD_END.length + 1);
		this.#pending = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk]);
		const begin = this.#pending.subarray(0, 5).toString("latin1");
		if (!"HTTP/".startsWith(begin)) throw new HttpFormatError("the answer is not HTTP");
		const end = this.#pending.indexOf(HEAD_END, from);
		if ((end < 0 ? this.#pending.length : end) > this.#options.maxHeadBytes)
			throw new HttpFormatError(`the answer's header is over ${this.#options.maxHeadBytes} bytes`);
		if (end < 0) return EMPTY;
		const head = parseHead(this.#pending.subarray(0, end).toString("latin1"));
		const rest = this.#pending.subarray(end + HEAD_END.length);
		this.#pending = EMPTY;
		// 100 and the like announce another head.
		if (head.status >= 100 && head.status < 200 && head.status !== 101) return rest;
		this.#head = head;
		this.#chooseBody(head);
		this.#options.onHead?.(head);
		return rest;
	}

	#chooseBody(head: ResponseHead): void {
		const { status, headers } = head;
		const length = headers.get("content-length");
		if (startsRawStream(head)) this.#state = "done";
		else if (this.#options.headOnly || status === 204 || status === 304) this.#state = "done";
		else if (/\bchunked\b/i.test(headers.get("transfer-encoding") ?? "")) this.#state = "chunk-line";
		else if (length !== undefined) {
			if (!/^\d{1,15}$/.test(length)) throw new HttpFormatError("the answer's content-length is no number");
			this.#missing = Number(length);
			this.#refuseOver(this.#missing);
			this.#state = this.#missing === 0 ? "done" : "counted";
		} else this.#state = "until-close";
	}

	#readCounted(chunk: Buffer, then: State): Buffer {
		const part = chunk.subarray(0, this.#missing);
		this.#keep(part);
		this.#missing -= part.length;
		if (this.#missing === 0) this.#state = then;
		return chunk.subarray(part.length);
	}

	/** One line of the chunked form: a size, the end of a chunk, or a trailer. */
	#readLine(chunk: Buffer): Buffer {
		const before = this.#pending.length;
		const buffer = before === 0 ? chunk : Buffer.concat([this.#pending, chunk]);
		const end = buffer.indexOf(CRLF, Math.max(0, before - 1));
		if ((end < 0 ? buffer.length : end) > MAX_CHUNK_LINE_BYTES)
			throw new HttpFormatError("a line of the chunked answer is too long");
		if (end < 0) {
			this.#pending = buffer;
			return EMPTY;
		}
		this.#pending = EMPTY;
		this.#takeLine(buffer.subarray(0, end).toString("latin1"));
		return buffer.subarray(end + CRLF.length);
	}

	#takeLine(line: string): void {
		if (this.#state === "chunk-end") {
			if (line !== "") throw new HttpFormatError("a chunk of the answer is longer than it said");
			this.#state = "chunk-line";
		} else if (this.#state === "trailer") {
			if (line === "") this.#state = "done";
		} else {
			const size = /^([0-9a-f]{1,12})\s*(?:;.*)?$/i.exec(line)?.[1];
			if (size === undefined) throw new HttpFormatError("the size of a chunk of the answer cannot be read");
			this.#missing = Number.parseInt(size, 16);
			this.#refuseOver(this.#bodyBytes + this.#missing);
			this.#state = this.#missing === 0 ? "trailer" : "chunk-data";
		}
	}

	#keep(part: Buffer): void {
		if (part.length === 0) return;
		this.#bodyBytes += part.length;
		this.#refuseOver(this.#bodyBytes);
		this.#body.push(part);
	}

	#refuseOver(bytes: number): void {
		if (bytes > this.#options.maxBodyBytes)
			throw new HttpFormatError(`the answer is over ${this.#options.maxBodyBytes} bytes`);
	}
}

/** Whether the connection goes on as a stream of the engine's own after this head. Older engines say 200 for it. */
export function startsRawStream(head: ResponseHead): boolean {
	const type = head.headers.get("content-type") ?? "";
	return (
		head.status === 101 || (head.status === 200 && /^application\/vnd\.docker\.(raw|multiplexed)-stream/.test(type))
	);
}

function parseHead(text: string): ResponseHead {
	const [first = "", ...lines] = text.split("\r\n");
	const status = /^HTTP\/1\.[01] (\d{3})(?: |$)/.exec(first)?.[1];
	if (status === undefined) throw new HttpFormatError("the answer's first line is not HTTP/1");
	const headers = new Map<string, string>();
	for (const line of lines) {
		const colon = line.indexOf(":");
		if (colon > 0) headers.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
	}
	return { status: Number(status), headers };
}

/** Finds the runner's own lines in a stream of bytes and takes exactly these out; everything else passes through untouched. */

/** The longest line the runner writes after its nonce. */
const MAX_LINE_BYTES = 64;
const MAX_PREAMBLE_BYTES = 64 * 1024;
const NEWLINE = 0x0a;

/**
 * One stream's scanner. Before the first line `<nonce> P…` everything is preamble (messages of the shell or the engine);
 * between it and the next line everything is the command's; after that line everything is somebody else's and is dropped.
 * A nonce that is not followed by a line of the runner is the command's own data.
 */
export class SentinelScanner {
	readonly #nonce: Buffer;
	#held: Buffer = Buffer.alloc(0);
	#start: string | undefined;
	#end: string | undefined;
	#preamble: Buffer[] = [];
	#preambleBytes = 0;
	#rest: Buffer = Buffer.alloc(0);

	constructor(nonce: string) {
		this.#nonce = Buffer.from(nonce, "latin1");
	}

	/** What followed `P` in the first line; `undefined` until it was seen. */
	get start(): string | undefined {
		return this.#start;
	}

	/** The line that ended the stream, without nonce and line end; `undefined` until it was seen. */
	get end(): string | undefined {
		return this.#end;
	}

	/** What followed the ending line within its chunk. */
	get rest(): Buffer {
		return this.#rest;
	}

	/** What came before the first line, as text, at most 64 KiB. */
	get preamble(): string {
		return Buffer.concat(this.#preamble).toString("utf8");
	}

	/** The command's own bytes in this chunk and in what had been held back. */
	push(chunk: Buffer): Buffer[] {
		const data: Buffer[] = [];
		let rest = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
		this.#held = Buffer.alloc(0);
		while (rest.length > 0 && this.#end === undefined) {
			const at = rest.indexOf(this.#nonce);
			if (at < 0) {
				const keep = this.#prefixAtEnd(rest);
				this.#pass(rest.subarray(0, rest.length - keep), data);
				this.#held = Buffer.from(rest.subarray(rest.length - keep));
				break;
			}
			this.#pass(rest.subarray(0, at), data);
			const from = at + this.#nonce.length;
			const lineEnd = rest.subarray(from, from + MAX_LINE_BYTES).indexOf(NEWLINE);
			if (lineEnd < 0 && rest.length - from < MAX_LINE_BYTES) {
				this.#held = Buffer.from(rest.subarray(at));
				break;
			}
			const line = lineEnd < 0 ? "" : rest.toString("latin1", from, from + lineEnd);
			if (this.#accept(line.endsWith("\r") ? line.slice(0, -1) : line)) {
				rest = rest.subarray(from + lineEnd + 1);
				if (this.#end !== undefined) this.#rest = rest;
			} else {
				this.#pass(rest.subarray(at, at + 1), data);
				rest = rest.subarray(at + 1);
			}
		}
		return data;
	}

	/** The stream has ended: what is still held back was the command's own, unless it had ended before. */
	flush(): Buffer[] {
		const data: Buffer[] = [];
		const held = this.#held;
		this.#held = Buffer.alloc(0);
		if (this.#end === undefined) this.#pass(held, data);
		return data;
	}

	#accept(line: string): boolean {
		if (this.#start === undefined && /^ P\d*$/.test(line)) {
			this.#start = line.slice(2);
			return true;
		}
		if (/^ (?:\d{1,3}(?: s)?(?: o\d{1,10})?(?: p\d{1,10})?|L|E)$/.test(line)) {
			this.#end = line.slice(1);
			return true;
		}
		return false;
	}

	#pass(bytes: Buffer, data: Buffer[]): void {
		if (bytes.length === 0) return;
		if (this.#start !== undefined) data.push(bytes);
		else if (this.#preambleBytes < MAX_PREAMBLE_BYTES) {
			const part = Buffer.from(bytes.subarray(0, MAX_PREAMBLE_BYTES - this.#preambleBytes));
			this.#preamble.push(part);
			this.#preambleBytes += part.length;
		}
	}

	/** How many bytes at the end could be the beginning of a nonce. */
	#prefixAtEnd(bytes: Buffer): number {
		for (let length = Math.min(this.#nonce.length - 1, bytes.length); length > 0; length--) {
			if (bytes.subarray(bytes.length - length).equals(this.#nonce.subarray(0, length))) return length;
		}
		return 0;
	}
}

/** Keeps the first and the last part of a stream within a fixed number of bytes. */

const BLOCK_BYTES = 64 * 1024;

/** What was left out of the middle of a stream. */
export interface CutRange {
	/** How many bytes of the stream precede the gap. */
	readonly atByte: number;
	/** How many bytes are missing there. */
	readonly bytes: number;
}

/** Bytes in blocks, so that a million small writes cost no more than a few large ones. */
class Blocks {
	readonly #blocks: Buffer[] = [];
	#last: Buffer | undefined;
	#used = 0;
	length = 0;

	append(bytes: Buffer): void {
		let rest = bytes;
		while (rest.length > 0) {
			if (!this.#last || this.#used === this.#last.length) {
				if (this.#last) this.#blocks.push(this.#last);
				this.#last = Buffer.allocUnsafe(Math.max(BLOCK_BYTES, Math.min(rest.length, BLOCK_BYTES * 16)));
				this.#used = 0;
			}
			const taken = Math.min(rest.length, this.#last.length - this.#used);
			rest.copy(this.#last, this.#used, 0, taken);
			this.#used += taken;
			this.length += taken;
			rest = rest.subarray(taken);
		}
	}

	/** Drops whole blocks from the front while at least `keep` bytes stay. */
	shrinkTo(keep: number): void {
		for (let first = this.#blocks[0]; first && this.length - first.length >= keep; first = this.#blocks[0]) {
			this.#blocks.shift();
			this.length -= first.length;
		}
	}

	toBuffers(): Buffer[] {
		return this.#last ? [...this.#blocks, this.#last.subarray(0, this.#used)] : [...this.#blocks];
	}
}

/** One stream of one command, as far as its result keeps it. */
export class OutputKeeper {
	readonly #headLimit: number;
	readonly #tailLimit: number;
	readonly #head = new Blocks();
	readonly #tail = new Blocks();
	#total = 0;

	constructor(maxBytes: number) {
		this.#headLimit = Math.ceil(maxBytes / 2);
		this.#tailLimit = maxBytes - this.#headLimit;
	}

	/** How many bytes came in all, kept or not. */
	get totalBytes(): number {
		return this.#total;
	}

	get truncated(): boolean {
		return this.#total > this.#headLimit + this.#tailLimit;
	}

	add(chunk: Buffer): void {
		this.#total += chunk.length;
		const forHead = Math.min(chunk.length, this.#headLimit - this.#head.length);
		if (forHead > 0) this.#head.append(chunk.subarray(0, forHead));
		if (forHead === chunk.length || this.#tailLimit === 0) return;
		this.#tail.append(chunk.subarray(forHead));
		this.#tail.shrinkTo(this.#tailLimit);
	}

	/** The bytes that were kept, and where some are missing. */
	toBytes(): { bytes: Buffer; cut: CutRange | undefined } {
		const [head, tail] = this.#parts();
		return { bytes: Buffer.concat([head, tail]), cut: this.#cut(head, tail) };
	}

	/** The same as text. A character that the gap would cut in two is left out whole. */
	toText(): { text: string; cut: CutRange | undefined } {
		let [head, tail] = this.#parts();
		if (!this.truncated) return { text: Buffer.concat([head, tail]).toString("utf8"), cut: undefined };
		head = withoutPartialEnd(head);
		tail = withoutPartialStart(tail);
		return { text: head.toString("utf8") + tail.toString("utf8"), cut: this.#cut(head, tail) };
	}

	#parts(): [Buffer, Buffer] {
		const tail = Buffer.concat(this.#tail.toBuffers());
		return [Buffer.concat(this.#head.toBuffers()), tail.subarray(Math.max(0, tail.length - this.#tailLimit))];
	}

	#cut(head: Buffer, tail: Buffer): CutRange | undefined {
		return this.truncated ? { atByte: head.length, bytes: this.#total - head.length - tail.length } : undefined;
	}
}

function isContinuation(byte: number | undefined): boolean {
	return byte !== undefined && (byte & 0xc0) === 0x80;
}

function withoutPartialStart(bytes: Buffer): Buffer {
	let from = 0;
	while (from < 3 && isContinuation(bytes[from])) from++;
	return bytes.subarray(from);
}

function withoutPartialEnd(bytes: Buffer): Buffer {
	let lead = bytes.length - 1;
	while (lead >= 0 && bytes.length - lead < 4 && isContinuation(bytes[lead])) lead--;
	const first = bytes[lead] ?? 0;
	const needed = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
	return bytes.length - lead < needed ? bytes.subarray(0, lead) : bytes;
}

/**
 * What the bytes of a ledger mean. Pure: bytes in, rows out; the same bytes give the same rows to every reader.
 *
 * A row's revision is the position of the line that won it, counted over the whole life of the ledger (`lsn`). So no
 * revision is ever used twice, also where a row was deleted and made again, and a compaction changes none.
 */
import {
	type ChangeLine,
	decodeLine,
	type HeaderLine,
	LEDGER_VERSION,
	type Line,
	type SealLine,
	type SnapshotLine,
	splitLines,
	type TickLine,
} from "./line.js";

/** A row and its revision; without `row` it was deleted there. */
export interface Entry<Row> {
	readonly revision: number;
	readonly row: Row | undefined;
	/** Set where the row was remembered after a loss: which revision it had then. */
	readonly origin?: number;
}

/** Which of two states of a row is the newer one, also where one was remembered after a loss. */
export function ageOf(entry: Entry<unknown>): number {
	return entry.origin ?? entry.revision;
}

/** What became of a line: it took effect, it did not, or it stands behind the end of its file and must be written again. */
export type Fate<Row> =
	| { readonly kind: "won"; readonly entry: Entry<Row> }
	| { readonly kind: "epoch"; readonly epoch: number }
	| { readonly kind: "void" | "sealed" };

/** Why a ledger cannot be believed as it is. */
export type DamageReason = "missing" | "header" | "line" | "lost_line" | "truncated" | "older";

export interface ReplayOptions<Row> {
	readonly parseRow: (value: unknown) => Row | undefined;
	/** Told of every line that this process may have written. */
	readonly onFate?: (by: string, fate: Fate<Row>) => void;
}

export class Replay<Row> {
	header: HeaderLine | undefined;
	readonly entries = new Map<string, Entry<Row>>();
	/** Keys whose newest state was written in a form that `parseRow` does not know. */
	readonly foreign = new Set<string>();
	/** In the order of the file. The first ends it; the others name what to take if the first one's file is gone. */
	readonly seals: SealLine[] = [];
	/** Seals that were overtaken before they were written count here as well. */
	sealLines = 0;
	/** All lines that are not the header's, void ones included. */
	lines = 0;
	live = 0;
	epoch = 0;
	/** Everything up to this offset has been understood. */
	consumed = 0;
	damage: DamageReason | undefined;
	/** Set where the file says it has a later form than this code knows. */
	laterVersion: number | undefined;
	/** Changes with every line that took effect. */
	version = 0;

	readonly #options: ReplayOptions<Row>;
	readonly #lost = new Set<number>();
	#begun = false;
	#snapshotLinesLeft = 0;
	#base = 0;
	/** Whether the header told where the journal begins. Without it the position is reckoned from what writers knew. */
	#placed = false;

	constructor(options: ReplayOptions<Row>) {
		this.#options = options;
	}

	/** The position of an offset in this file. */
	positionOf(offset: number): number {
		return this.#base + offset;
	}

	/** Whether the header told positions in this file, so that they may be carried into another. */
	get placed(): boolean {
		return this.#placed;
	}

	/** The state of a row that is there. */
	find(key: string): { readonly revision: number; readonly row: Row } | undefined {
		const entry = this.entries.get(key);
		return entry?.row === undefined ? undefined : { revision: entry.revision, row: entry.row };
	}

	/** A position above every revision that this file names. */
	top(): number {
		let top = this.positionOf(this.consumed);
		for (const { revision } of this.entries.values()) top = Math.max(top, revision);
		return top;
	}

	/**
	 * Reads on. `chunk` begins at {@link consumed}; `atEnd` says that nothing follows it now.
	 * A last line that is cut off is left for later: its writer may still be at it.
	 */
	feed(chunk: Buffer, atEnd: boolean): void {
		const origin = this.consumed;
		for (const { start, end, ended } of splitLines(chunk)) {
			if (!ended && !atEnd) return;
			const decoded = decodeLine(chunk.subarray(start, end));
			if (decoded.fate === "ok") this.#apply(decoded.line, origin + start, origin + end);
			else if (decoded.fate === "bad") this.#bad(origin + start);
			else if (ended) this.#torn();
			if (!ended && decoded.fate !== "ok") return;
			this.consumed = origin + end;
		}
	}

	/** Called once all that there is has been fed: a file without a header is damaged even where no line is. */
	endOfFile(): void {
		if (!this.#begun) this.#damaged("header");
		else if (this.#snapshotLinesLeft > 0) this.#damaged("line");
	}

	#damaged(reason: DamageReason): void {
		this.damage ??= reason;
	}

	#torn(): void {
		this.lines += 1;
		// The header and the snapshot are written whole before the file gets its name.
		if (!this.#placed) this.endOfFile();
	}

	#bad(offset: number): void {
		this.lines += 1;
		this.#damaged(this.#begun ? "line" : "header");
		this.#begun = true;
		this.#lost.add(this.positionOf(offset));
	}

	#apply(line: Line, start: number, end: number): void {
		if ("ledger" in line) {
			this.#begin(line, start, end);
			return;
		}
		this.lines += 1;
		if (!this.#begun) {
			this.#damaged("header");
			this.#begun = true;
		}
		if ("revision" in line) this.#restore(line, end);
		else if ("next" in line) this.#seal(line, start);
		else {
			this.#place(line.at, start);
			if (this.seals.length > 0) this.#tell(line.by, { kind: "sealed" });
			else if ("key" in line) this.#change(line, start);
			else this.#tick(line);
		}
	}

	#begin(line: HeaderLine, start: number, end: number): void {
		if (start > 0 || this.#begun) {
			this.#damaged("line");
			return;
		}
		if (line.ledger !== LEDGER_VERSION) {
			this.laterVersion = line.ledger;
			return;
		}
		this.header = line;
		this.#begun = true;
		this.epoch = line.epoch;
		this.#snapshotLinesLeft = line.rows;
		if (line.rows === 0) this.#beginJournal(end);
	}

	#beginJournal(end: number): void {
		if (!this.header) return;
		this.#base = this.header.lsn - end;
		this.#placed = true;
	}

	#restore(line: SnapshotLine, end: number): void {
		this.#put(line.key, line.revision, line);
		if (this.header && this.#snapshotLinesLeft <= 0) this.#damaged("line");
		this.#snapshotLinesLeft -= 1;
		if (this.#snapshotLinesLeft === 0) this.#beginJournal(end);
	}

	/** A writer knew the journal up to `at`, so its line stands behind that. */
	#place(at: number, start: number): void {
		if (this.#snapshotLinesLeft > 0) {
			this.#damaged("line");
			this.#snapshotLinesLeft = 0;
		}
		if (at < this.positionOf(start)) return;
		if (this.#placed) this.#damaged("lost_line");
		this.#base = at + 1 - start;
	}

	#change(line: ChangeLine, start: number): void {
		const entry = this.entries.get(line.key);
		const there = entry && (entry.row !== undefined || this.foreign.has(line.key));
		const revision = there ? entry.revision : 0;
		const follows = line.from === revision;
		const followsLost = !follows && (line.from > (entry?.revision ?? 0) || this.#lost.has(line.from));
		if (followsLost) this.#damaged("lost_line");
		if (follows || followsLost) {
			this.#tell(line.by, { kind: "won", entry: this.#put(line.key, this.positionOf(start), line) });
		} else this.#tell(line.by, { kind: "void" });
	}

	#put(key: string, revision: number, { row: value, origin }: SnapshotLine | ChangeLine): Entry<Row> {
		const row = value === undefined ? undefined : this.#options.parseRow(value);
		if (value !== undefined && row === undefined) this.foreign.add(key);
		else this.foreign.delete(key);
		const before = this.entries.get(key)?.row !== undefined;
		this.live += Number(row !== undefined) - Number(before);
		const entry = { revision, row, ...(origin === undefined ? {} : { origin }) };
		this.entries.set(key, entry);
		this.version += 1;
		return entry;
	}

	#tick(line: TickLine): void {
		this.epoch = Math.max(this.epoch, line.above) + 1;
		this.#tell(line.by, { kind: "epoch", epoch: this.epoch });
	}

	#seal(line: SealLine, start: number): void {
		this.sealLines += 1;
		if (line.offset === start - 1) this.seals.push(line);
	}

	#tell(by: string, fate: Fate<Row>): void {
		this.#options.onFate?.(by, fate);
	}
}

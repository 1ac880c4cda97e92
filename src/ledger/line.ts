/**
 * One line of the ledger: what kinds there are, their text, and what a line's checksum says of it.
 *
 * A line is one JSON object whose first member, of fixed length, holds the checksum and the length of the rest:
 * `{"sum":"<crc32><length>",…}`. So a write that was cut off (a prefix) is told from bytes that were changed.
 */
import { crc32 } from "node:zlib";
import type { Owner } from "../primitives/owner.js";

/** The version of the file's form. */
export const LEDGER_VERSION = 1;

/** First line. `rows` snapshot lines follow; the journal begins behind them, at position `lsn`. */
export interface HeaderLine {
	readonly ledger: number;
	/** Random; kept over compaction. A ledger with another id is another ledger. */
	readonly id: string;
	readonly lsn: number;
	readonly rows: number;
	readonly epoch: number;
	readonly owner: Owner;
	/** The file was written after damage: it may lack what others remember. */
	readonly recovered: boolean;
}

/** A row as it stood when the file was written. */
export interface SnapshotLine {
	readonly key: string;
	readonly revision: number;
	readonly row: unknown;
	/** See {@link ChangeLine.origin}. */
	readonly origin?: number;
}

/** Replaces, makes (`from` 0) or deletes (no `row`) a row, if its revision is still `from`. */
export interface ChangeLine {
	readonly by: string;
	/** The end of the journal as its writer knew it. */
	readonly at: number;
	readonly key: string;
	readonly from: number;
	readonly row?: unknown;
	/**
	 * Set where the row was not changed but remembered after the ledger was lost: the revision that it had, or 0 where only
	 * others remembered it. Who knew a later revision knows better.
	 */
	readonly origin?: number;
}

/** Takes the next epoch above `above`. */
export interface TickLine {
	readonly by: string;
	readonly at: number;
	readonly above: number;
}

/** Ends the file. Valid only where nothing was written between `offset` and the seal. */
export interface SealLine {
	readonly by: string;
	readonly offset: number;
	/** The file that takes this one's place; complete before the seal is written. */
	readonly next: string;
	/** The name under which this file is kept, if it was damaged. */
	readonly aside?: string;
	/** What was wrong with it. */
	readonly problem?: string;
}

export type Line = HeaderLine | SnapshotLine | ChangeLine | TickLine | SealLine;

/** `torn`: a write that was cut off, or is still going on. `bad`: not what any writer wrote. */
export type Decoded = { readonly fate: "ok"; readonly line: Line } | { readonly fate: "torn" | "bad" };

const START = '{"sum":"';
const HEAD_LENGTH = START.length + 16 + 2;
const NEWLINE = 0x0a;

/** With the writer's pid and start time. */
export const NEXT_NAME: RegExp = /^ledger\.next-(\d+)-(\d+)-[0-9a-f]{16}\.jsonl$/;
export const ASIDE_NAME: RegExp = /^ledger\.damaged-[0-9TZ]+-\d+\.jsonl$/;

/** The text of a line, without line ends. */
export function encodeLine(line: Line): string {
	const body = JSON.stringify(line).slice(1);
	const bytes = Buffer.from(body);
	return `${START}${hex(crc32(bytes))}${hex(bytes.length)}",${body}`;
}

/** What a line, given without its line end, says; of a torn or a bad one nothing is believed. */
export function decodeLine(bytes: Buffer): Decoded {
	const head = bytes.toString("latin1", 0, HEAD_LENGTH);
	if (bytes.length < HEAD_LENGTH) return { fate: isHeadPrefix(head) ? "torn" : "bad" };
	const match = /^\{"sum":"([0-9a-f]{8})([0-9a-f]{8})",$/.exec(head);
	if (!match) return { fate: "bad" };
	const body = bytes.subarray(HEAD_LENGTH);
	const length = Number.parseInt(match[2] ?? "", 16);
	const sound = crc32(body) === Number.parseInt(match[1] ?? "", 16);
	if (body.length < length) return { fate: sound ? "bad" : "torn" };
	if (body.length > length || !sound) return { fate: "bad" };
	const line = toLine(body);
	return line ? { fate: "ok", line } : { fate: "bad" };
}

/** Calls `visit` for every line of a chunk with its place in it; `ended` says whether a line end follows. */
export function* splitLines(chunk: Buffer): Generator<{ start: number; end: number; ended: boolean }> {
	let start = 0;
	while (start < chunk.length) {
		if (chunk[start] === NEWLINE) {
			start += 1;
			continue;
		}
		const found = chunk.indexOf(NEWLINE, start);
		const end = found < 0 ? chunk.length : found;
		yield { start, end, ended: found >= 0 };
		start = end;
	}
}

function isHeadPrefix(text: string): boolean {
	const rest = text.slice(START.length);
	return START.startsWith(text.slice(0, START.length)) && /^([0-9a-f]*|[0-9a-f]{16}"?)$/.test(rest);
}

function hex(value: number): string {
	return value.toString(16).padStart(8, "0");
}

function toLine(body: Buffer): Line | undefined {
	let value: unknown;
	try {
		value = JSON.parse(`{${body.toString()}`);
	} catch {
		return undefined;
	}
	const line = value as Partial<HeaderLine & SnapshotLine & ChangeLine & TickLine & SealLine>;
	if (isCount(line.ledger)) {
		if (line.ledger !== LEDGER_VERSION) return line as HeaderLine;
		const { id, lsn, rows, epoch } = line;
		return typeof id === "string" && isCount(lsn) && isCount(rows) && isCount(epoch) ? (line as HeaderLine) : undefined;
	}
	if (typeof line.next === "string") return isSeal(line) ? (line as SealLine) : undefined;
	if (typeof line.key === "string") {
		const { revision, row, by, at, from, origin } = line;
		if (origin !== undefined && !isCount(origin)) return undefined;
		if (isCount(revision)) return row === undefined ? undefined : (line as SnapshotLine);
		return typeof by === "string" && isCount(at) && isCount(from) ? (line as ChangeLine) : undefined;
	}
	return typeof line.by === "string" && isCount(line.at) && isCount(line.above) ? (line as TickLine) : undefined;
}

function isSeal(line: Partial<SealLine>): boolean {
	const { by, offset, next, aside } = line;
	if (typeof by !== "string" || !isCount(offset) || !NEXT_NAME.test(next ?? "")) return false;
	return aside === undefined || (typeof aside === "string" && ASIDE_NAME.test(aside));
}

function isCount(value: unknown): value is number {
	return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

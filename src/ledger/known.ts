/** What is known of a ledger's rows apart from the file that holds them: what is kept when a file is lost or damaged. */
import type { Entry, Replay } from "./replay.js";

export interface Known<Row> {
	readonly id: string | undefined;
	readonly entries: ReadonlyMap<string, Entry<Row>>;
	readonly epoch: number;
	/** A position above every revision that was ever seen. */
	readonly top: number;
}

/** What the `rebuild` of a ledger remembers of it. */
export interface Rebuilt<Row> {
	readonly rows: ReadonlyMap<string, Row>;
	/** The highest epoch that was seen anywhere; the next ones are above it. */
	readonly epochFloor?: number;
}

/** How far positions and epochs move on after damage: above what the lost lines can have taken. */
const POSITION_GAP = 1024 * 1024;
/** Positions by time, for ledgers whose own are lost: above the old ones as long as a ledger grows by less than 8 KiB a millisecond. */
const toPosition = (nowMs: number): number => Math.max(0, nowMs - 1_700_000_000_000) * 8192;
const EPOCH_GAP = 1000;

export function toKnown<Row>(replay: Replay<Row>): Known<Row> {
	return { id: replay.header?.id, entries: new Map(replay.entries), epoch: replay.epoch, top: replay.top() };
}

/** The newest state of each row that either knows. */
export function merge<Row>(first: Known<Row> | undefined, second: Known<Row>): Known<Row> {
	if (!first) return second;
	const entries = new Map(first.entries);
	for (const [key, entry] of second.entries) {
		if (entry.revision >= (entries.get(key)?.revision ?? 0)) entries.set(key, entry);
	}
	return {
		id: first.id ?? second.id,
		entries,
		epoch: Math.max(first.epoch, second.epoch),
		top: Math.max(first.top, second.top),
	};
}

/** The same rows where their revisions cannot be compared with another ledger's: they are older than any that it has. */
export function withoutRevisions<Row>(known: Known<Row>): Known<Row> {
	const entries = new Map([...known.entries].map(([key, { row }]) => [key, { revision: 0, row }]));
	return { ...known, entries, top: Number.MAX_SAFE_INTEGER };
}

/** The content of a new ledger file. */
export interface Content<Row> {
	readonly id: string;
	readonly lsn: number;
	readonly epoch: number;
	readonly recovered: boolean;
	readonly rows: ReadonlyMap<string, { readonly revision: number; readonly row: Row }>;
}

export interface Recovery<Row> extends Content<Row> {
	readonly kept: number;
	readonly rebuilt: number;
}

/**
 * What to write after damage: every row that is known, and from `rebuilt` those of which nothing is known, not even
 * that they were deleted. `placed` says whether the positions are known for sure.
 */
export function toRecovery<Row>(
	known: Known<Row>,
	rebuilt: Rebuilt<Row> | undefined,
	options: { readonly newId: string; readonly placed: boolean; readonly nowMs: number },
): Recovery<Row> {
	const rows = new Map<string, { revision: number; row: Row }>();
	for (const [key, { revision, row }] of known.entries) if (row !== undefined) rows.set(key, { revision, row });
	const kept = rows.size;
	let lsn = Math.max(known.top, options.placed ? 0 : toPosition(options.nowMs)) + POSITION_GAP;
	for (const [key, row] of rebuilt?.rows ?? []) {
		if (known.entries.has(key)) continue;
		lsn += 1;
		rows.set(key, { revision: lsn, row });
	}
	return {
		id: known.id ?? options.newId,
		lsn: lsn + 1,
		epoch: Math.max(known.epoch, rebuilt?.epochFloor ?? 0) + EPOCH_GAP,
		recovered: true,
		rows,
		kept,
		rebuilt: rows.size - kept,
	};
}

/** What is known of a ledger's rows apart from the file that holds them: what is kept when a file is lost or damaged. */
import type { Entry, Replay } from "./replay.js";

export interface Known<Row> {
	readonly id: string | undefined;
	readonly entries: ReadonlyMap<string, Entry<Row>>;
	readonly epoch: number;
	/** A position above every revision that was ever seen. */
	readonly top: number;
	/** Whether its revisions may be compared with those of the ledger that stands now. */
	readonly comparable: boolean;
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
	return {
		id: replay.header?.id,
		entries: new Map(replay.entries),
		epoch: replay.epoch,
		top: replay.top(),
		comparable: true,
	};
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
		comparable: first.comparable && second.comparable,
	};
}

/** The rows that are there. */
export function toLive<Row>(entries: ReadonlyMap<string, Entry<Row>>): Map<string, Entry<Row>> {
	const rows = new Map<string, Entry<Row>>();
	for (const [key, entry] of entries) if (entry.row !== undefined) rows.set(key, entry);
	return rows;
}

/** The content of a new ledger file. */
export interface Content<Row> {
	readonly id: string;
	readonly lsn: number;
	readonly epoch: number;
	readonly recovered: boolean;
	readonly rows: ReadonlyMap<string, Entry<Row>>;
}

/**
 * What to write after damage: every row that is known, and from `rebuilt` those of which nothing is known, not even
 * that they were deleted. `placed` says whether the positions are known for sure.
 */
export function toRecovery<Row>(
	known: Known<Row>,
	rebuilt: Rebuilt<Row> | undefined,
	options: { readonly newId: string; readonly placed: boolean; readonly nowMs: number },
): Content<Row> {
	const rows = toLive(known.entries);
	let lsn = Math.max(known.top, options.placed ? 0 : toPosition(options.nowMs)) + POSITION_GAP;
	for (const [key, row] of rebuilt?.rows ?? []) {
		if (known.entries.has(key)) continue;
		lsn += 1;
		rows.set(key, { revision: lsn, row, origin: 0 });
	}
	return {
		id: known.id ?? options.newId,
		lsn: lsn + 1,
		epoch: Math.max(known.epoch, rebuilt?.epochFloor ?? 0) + EPOCH_GAP,
		recovered: true,
		rows,
	};
}

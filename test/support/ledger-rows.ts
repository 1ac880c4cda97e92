/** A small row for tests of the ledger that do not care what a row holds. */
import { Ledger, type LedgerOptions } from "../../src/ledger/ledger.js";

export interface CountRow {
	readonly count: number;
	readonly note?: string;
}

export function parseCountRow(value: unknown): CountRow | undefined {
	if (typeof value !== "object" || value === null) return undefined;
	const { count, note } = value as { count?: unknown; note?: unknown };
	if (typeof count !== "number") return undefined;
	return { count, ...(typeof note === "string" ? { note } : {}) };
}

export function openCounts(directory: string, options: Partial<LedgerOptions<CountRow>> = {}): Ledger<CountRow> {
	return new Ledger<CountRow>({ directory, parseRow: parseCountRow, ...options });
}

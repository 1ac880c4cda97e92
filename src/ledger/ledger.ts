/**
 * Remembers what was meant: named rows in an append-only file, each changed by compare-and-swap.
 *
 * No lock is taken. A change is one appended line that says which revision of its row it replaces; every reader decides
 * in the same way, by the order of the lines, whether it took effect. For local file systems only.
 */
import { join } from "node:path";
import { sleep } from "../primitives/abort.js";
import { invalid } from "../primitives/checks.js";
import { SandboxError } from "../primitives/errors.js";
import { KeyedQueue } from "../primitives/queue.js";
import type { Rebuilt } from "./known.js";
import type { LedgerDamage, LedgerStep } from "./ledger-file.js";
import { encodeLine } from "./line.js";
import type { Fate, Replay } from "./replay.js";
import { Writer } from "./writer.js";

export type { Rebuilt } from "./known.js";
export type { LedgerDamage, LedgerStep } from "./ledger-file.js";
export type { DamageReason } from "./replay.js";

/** What {@link Ledger.update} is told to leave a row as it is. */
export const KEEP: unique symbol = Symbol("keep");

export interface LedgerOptions<Row> {
	/** Holds `ledger.jsonl`, and files named `ledger.damaged-…` and, for moments, `ledger.next-…`. Made when it is missing. */
	readonly directory: string;
	/** The row that a JSON value stands for, or `undefined` when it stands for none. */
	readonly parseRow: (value: unknown) => Row | undefined;
	/**
	 * What others remember of the rows. Asked when there is no file (also in a new directory) or a damaged one; must not
	 * use this ledger. When it rejects, the call that needed it rejects with its reason and the file stays as it is.
	 */
	readonly rebuild?: () => Promise<Rebuilt<Row> | undefined>;
	/** Told, in the process that put the new file in its place, after a damaged or lost ledger was replaced. */
	readonly onDamage?: (damage: LedgerDamage) => void;
	/** Told at the moments at which a process may be killed. */
	readonly onStep?: (step: LedgerStep) => void;
}

/** A row that is there, with the revision that a change of it must name. */
export interface Stored<Row> {
	readonly revision: number;
	readonly row: Row;
}

const UPDATE_ATTEMPTS = 500;

export class Ledger<Row extends object> {
	readonly path: string;
	readonly #options: LedgerOptions<Row>;
	readonly #writer: Writer<Row>;
	readonly #updates = new KeyedQueue();
	#all: { replay: Replay<Row>; version: number; rows: ReadonlyMap<string, Stored<Row>> } | undefined;

	constructor(options: LedgerOptions<Row>) {
		this.#options = options;
		this.path = join(options.directory, "ledger.jsonl");
		const { parseRow, rebuild } = options;
		this.#writer = new Writer({
			path: this.path,
			parseRow,
			rebuild: rebuild && (async () => this.#checked(await rebuild())),
			onDamage: options.onDamage,
			onStep: options.onStep,
		});
	}

	/** The row and its revision, or `undefined` when there is none. Reads on from where this process was; takes no lock. Throws `ledger_unreadable`. */
	async get(key: string): Promise<Stored<Row> | undefined> {
		return (await this.#writer.ready()).replay.find(key);
	}

	/** All rows. The map is a snapshot and does not change. Throws `ledger_unreadable`. */
	async all(): Promise<ReadonlyMap<string, Stored<Row>>> {
		const { replay } = await this.#writer.ready();
		if (this.#all?.replay !== replay || this.#all.version !== replay.version) {
			const rows = new Map<string, Stored<Row>>();
			for (const key of replay.entries.keys()) {
				const stored = replay.find(key);
				if (stored) rows.set(key, stored);
			}
			this.#all = { replay, version: replay.version, rows };
		}
		return this.#all.rows;
	}

	/**
	 * Replaces the row if its revision is still the expected one (0: there is none); `next` left undefined deletes it.
	 * Gives the new revision, or `undefined` when another change was first. What it gives is on disk.
	 * Commits that are made while another one is written go out together. Throws `ledger_unreadable`, also when the disk is full.
	 */
	async commit(key: string, expectedRevision: number, next: Row | undefined): Promise<number | undefined> {
		const fate = await this.#change(key, expectedRevision, next);
		return fate.kind === "won" ? fate.entry.revision : undefined;
	}

	/**
	 * Replaces the row by what `change` makes of it and gives what then stands. `change` may be called again whenever
	 * another process was first; it gives `undefined` to delete the row and {@link KEEP} to leave it. Updates of one key
	 * in one process wait for each other. Throws `timeout` when it never came first, and what `change` throws.
	 */
	async update(
		key: string,
		change: (current: Row | undefined) => Row | undefined | typeof KEEP,
	): Promise<Stored<Row> | undefined> {
		return this.#updates.run(key, async () => {
			const startedAt = performance.now();
			for (let attempt = 0; attempt < UPDATE_ATTEMPTS; attempt++) {
				if (attempt > 0) await sleep(Math.random() * Math.min(25, 2 ** attempt));
				const current = await this.get(key);
				const next = change(current?.row);
				if (next === KEEP || (next === undefined && current === undefined)) return current;
				const fate = await this.#change(key, current?.revision ?? 0, next);
				if (fate.kind === "won") return toStored(fate);
			}
			throw new SandboxError(
				"timeout",
				`ledger ${this.path}: other changes of row ${JSON.stringify(key)} always came first`,
				{
					details: { what: "ledger update", timeoutMs: Math.round(performance.now() - startedAt) },
					hint: "repeat the call",
				},
			);
		});
	}

	/** A number that this ledger has never given and never will again; higher than all before, and than `above`. */
	async nextEpoch(above = 0): Promise<number> {
		const fate = await this.#writer.submit(
			() => true,
			(by, at, replay) => encodeLine({ by, at, above: Math.max(above, replay.epoch) }),
		);
		if (fate.kind !== "epoch") throw new Error("unreachable: an epoch is always given");
		return fate.epoch;
	}

	/** Writes the ledger anew without what is no longer needed. Throws `timeout` when other writers left no moment for it. */
	async compact(): Promise<void> {
		if (await this.#writer.compact()) return;
		throw new SandboxError("timeout", `ledger ${this.path}: it could not be compacted beside other writers`, {
			details: { what: "ledger compaction", timeoutMs: 0 },
			hint: "repeat the call",
		});
	}

	/** Lets go of the file after what is under way. A later call opens it again. */
	close(): Promise<void> {
		return this.#writer.close();
	}

	#change(key: string, from: number, next: Row | undefined): Promise<Fate<Row>> {
		if (next !== undefined) this.#check(next);
		return this.#writer.submit(
			(replay) => (replay.find(key)?.revision ?? 0) === from,
			(by, at) => encodeLine({ by, at, key, from, row: next }),
		);
	}

	#check(row: Row): void {
		if (this.#options.parseRow(row) === undefined) throw invalid("row", "a complete row", row);
	}

	#checked(rebuilt: Rebuilt<Row> | undefined): Rebuilt<Row> | undefined {
		for (const row of rebuilt?.rows.values() ?? []) this.#check(row);
		return rebuilt;
	}
}

function toStored<Row>(fate: Fate<Row>): Stored<Row> | undefined {
	if (fate.kind !== "won" || fate.entry.row === undefined) return undefined;
	return { revision: fate.entry.revision, row: fate.entry.row };
}

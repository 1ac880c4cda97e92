/**
 * Remembers what was meant: named rows in an append-only file, each changed by compare-and-swap.
 *
 * No lock is taken. A change is one appended line that says which revision of its row it replaces; every reader decides
 * in the same way, by the order of the lines, whether it took effect. For local file systems only.
 */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { sleep } from "../primitives/abort.js";
import { invalid } from "../primitives/checks.js";
import { SandboxError } from "../primitives/errors.js";
import { KeyedQueue } from "../primitives/queue.js";
import type { Journal } from "./journal.js";
import type { Known, Rebuilt } from "./known.js";
import { type LedgerDamage, LedgerFile, type LedgerStep } from "./ledger-file.js";
import { encodeLine } from "./line.js";
import type { Fate, Replay } from "./replay.js";

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

interface Item<Row> {
	readonly by: string;
	/** Whether the line could take effect as things stand. */
	readonly possible: (replay: Replay<Row>) => boolean;
	readonly line: (by: string, at: number) => string;
	readonly resolve: (fate: Fate<Row>) => void;
	readonly reject: (error: unknown) => void;
	fate: Fate<Row> | undefined;
}

const BATCH = 1000;
const WRITE_ATTEMPTS = 100;
const UPDATE_ATTEMPTS = 500;
/** A file is compacted when its dead lines outnumber the live ones twice, and by so many more. */
const DEAD_FLOOR = 200;

export class Ledger<Row extends object> {
	readonly path: string;
	readonly #options: LedgerOptions<Row>;
	readonly #file: LedgerFile<Row>;
	readonly #updates = new KeyedQueue();
	readonly #id = randomBytes(4).toString("hex");
	readonly #inFlight = new Map<string, Item<Row>>();
	#count = 0;
	#pending: Item<Row>[] = [];
	#draining = false;
	#tail: Promise<unknown> = Promise.resolve();
	#compactAbove = 0;
	#all: { replay: Replay<Row>; version: number; rows: ReadonlyMap<string, Stored<Row>> } | undefined;

	constructor(options: LedgerOptions<Row>) {
		this.#options = options;
		this.path = join(options.directory, "ledger.jsonl");
		this.#file = new LedgerFile({
			path: this.path,
			parseRow: options.parseRow,
			rebuild: options.rebuild,
			onDamage: options.onDamage,
			onStep: options.onStep,
			onFate: (by, fate) => {
				const item = this.#inFlight.get(by);
				if (item) item.fate ??= fate;
			},
		});
	}

	/** The row and its revision, or `undefined` when there is none. Reads on from where this process was; takes no lock. Throws `ledger_unreadable`. */
	async get(key: string): Promise<Stored<Row> | undefined> {
		return (await this.#ready()).replay.find(key);
	}

	/** All rows. The map is a snapshot and does not change. Throws `ledger_unreadable`. */
	async all(): Promise<ReadonlyMap<string, Stored<Row>>> {
		const { replay } = await this.#ready();
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
		const fate = await this.#submit(
			() => true,
			(by, at, replay) => encodeLine({ by, at, above: Math.max(above, replay.epoch) }),
		);
		if (fate.kind !== "epoch") throw new Error("unreachable: an epoch is always given");
		return fate.epoch;
	}

	/** Writes the ledger anew without what is no longer needed. Throws `timeout` when other writers left no moment for it. */
	async compact(): Promise<void> {
		await this.#exclusive(async () => {
			if (await this.#file.compact()) return;
			if (await this.#file.compact()) return;
			throw new SandboxError("timeout", `ledger ${this.path}: it could not be compacted beside other writers`, {
				details: { what: "ledger compaction", timeoutMs: 0 },
			});
		});
	}

	/** Lets go of the file. A later call opens it again. */
	close(): void {
		this.#file.close();
	}

	async #ready(): Promise<Journal<Row>> {
		return this.#file.current() ?? this.#exclusive(() => this.#settle());
	}

	#change(key: string, from: number, next: Row | undefined): Promise<Fate<Row>> {
		if (next !== undefined && this.#options.parseRow(next) === undefined) throw invalid("row", "a complete row", next);
		return this.#submit(
			(replay) => (replay.find(key)?.revision ?? 0) === from,
			(by, at) => encodeLine({ by, at, key, from, row: next }),
		);
	}

	#submit(
		possible: Item<Row>["possible"],
		line: (by: string, at: number, replay: Replay<Row>) => string,
	): Promise<Fate<Row>> {
		return new Promise((resolve, reject) => {
			this.#count += 1;
			const by = `${this.#id}-${this.#count.toString(36)}`;
			let known: Replay<Row>;
			this.#pending.push({
				by,
				possible: (replay) => {
					known = replay;
					return possible(replay);
				},
				line: (tag, at) => line(tag, at, known),
				resolve,
				reject,
				fate: undefined,
			});
			if (this.#draining) return;
			this.#draining = true;
			void this.#exclusive(() => this.#drain());
		});
	}

	async #drain(): Promise<void> {
		while (this.#pending.length > 0) {
			const batch = this.#pending.splice(0, BATCH);
			try {
				await this.#settle();
				await this.#write(batch);
			} catch (error) {
				for (const item of batch) item.reject(error);
			}
		}
		this.#draining = false;
		await this.#compactIfDue();
	}

	/** Writes lines in one append until each has had its fate. Rejects items one by one; throws where none can be written. */
	async #write(batch: readonly Item<Row>[]): Promise<void> {
		let open = batch;
		for (let attempt = 0; open.length > 0; attempt++) {
			if (attempt >= WRITE_ATTEMPTS) throw vanished(this.path);
			const journal = await this.#file.settle();
			const [send, lost] = partition(open, (item) => item.possible(journal.replay));
			for (const item of lost) item.resolve({ kind: "void" });
			if (send.length === 0) return;
			open = await this.#send(journal, send);
		}
	}

	/** Appends, makes durable, and reads on to see what became of each line. Gives those that must be written again. */
	async #send(journal: Journal<Row>, items: readonly Item<Row>[]): Promise<readonly Item<Row>[]> {
		const at = journal.replay.positionOf(journal.examined);
		let text = "";
		for (const item of items) {
			item.fate = undefined;
			this.#inFlight.set(item.by, item);
			text += `\n${item.line(item.by, at)}`;
		}
		try {
			this.#options.onStep?.("before_append");
			const failed = journal.append(text);
			this.#options.onStep?.("appended");
			await journal.sync();
			journal.readOn();
			const again: Item<Row>[] = [];
			for (const item of items) {
				if (item.fate && item.fate.kind !== "sealed") item.resolve(item.fate);
				else if (failed && !item.fate) item.reject(failed);
				else again.push(item);
			}
			return again;
		} finally {
			for (const item of items) this.#inFlight.delete(item.by);
		}
	}

	async #settle(): Promise<Journal<Row>> {
		for (;;) {
			const journal = await this.#file.settle();
			const known = this.#file.takeUnmerged();
			if (!known) return journal;
			await this.#merge(journal.replay, known);
		}
	}

	/** Writes what this process knew of a ledger that another one has mended without knowing it. */
	async #merge(replay: Replay<Row>, known: Known<Row>): Promise<void> {
		const begin = replay.header?.lsn ?? 0;
		const items: Item<Row>[] = [];
		const add = (line: Item<Row>["line"]): void => {
			this.#count += 1;
			const by = `${this.#id}-${this.#count.toString(36)}`;
			items.push({ by, possible: () => true, line, resolve: () => {}, reject: () => {}, fate: undefined });
		};
		for (const [key, { revision, row }] of known.entries) {
			const theirs = replay.entries.get(key);
			const from = replay.find(key)?.revision ?? 0;
			// A row that another source remembered, and nobody has changed since: what the ledger itself said is better.
			const guessed = from > known.top && from < begin && row !== undefined;
			if (theirs ? theirs.revision < revision || guessed : row !== undefined) {
				add((by, at) => encodeLine({ by, at, key, from, row }));
			}
		}
		if (known.epoch > replay.epoch) add((by, at) => encodeLine({ by, at, above: known.epoch }));
		await this.#write(items);
	}

	async #compactIfDue(): Promise<void> {
		try {
			const journal = this.#file.current();
			if (!journal) return;
			const { lines, live } = journal.replay;
			if (lines <= this.#compactAbove || lines - live <= 2 * live + DEAD_FLOOR) return;
			this.#compactAbove = lines + DEAD_FLOOR;
			if (this.#file.othersCompact()) return;
			if (await this.#file.compact()) this.#compactAbove = 0;
		} catch {
			// The ledger is whole without it; a later commit tries again.
		}
	}

	#exclusive<T>(work: () => Promise<T>): Promise<T> {
		const run = this.#tail.then(work);
		this.#tail = run.catch(() => {});
		return run;
	}
}

function toStored<Row>(fate: Fate<Row>): Stored<Row> | undefined {
	if (fate.kind !== "won" || fate.entry.row === undefined) return undefined;
	return { revision: fate.entry.revision, row: fate.entry.row };
}

function partition<T>(items: readonly T[], test: (item: T) => boolean): [T[], T[]] {
	const yes: T[] = [];
	const no: T[] = [];
	for (const item of items) (test(item) ? yes : no).push(item);
	return [yes, no];
}

function vanished(path: string): SandboxError<"timeout"> {
	return new SandboxError("timeout", `ledger ${path}: it was replaced again and again before a line could be written`, {
		details: { what: "ledger commit", timeoutMs: 0 },
		hint: "repeat the call",
	});
}

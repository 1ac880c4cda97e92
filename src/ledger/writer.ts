/**
 * Writes lines to the ledger and tells what became of each: queues them, sends what is queued in one append, and repeats
 * those that came too late for their file. One thing at a time is done to the file in this process.
 */
import { randomBytes } from "node:crypto";
import { SandboxError } from "../primitives/errors.js";
import type { Journal } from "./journal.js";
import type { Known } from "./known.js";
import { LedgerFile, type LedgerFileOptions } from "./ledger-file.js";
import { encodeLine } from "./line.js";
import { ageOf, type Fate, type Replay } from "./replay.js";

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
/** A file is compacted when its dead lines outnumber the live ones twice, and by so many more. */
const DEAD_FLOOR = 200;

export class Writer<Row> {
	readonly #options: Omit<LedgerFileOptions<Row>, "onFate">;
	readonly #file: LedgerFile<Row>;
	#ownId: string | undefined;
	readonly #inFlight = new Map<string, Item<Row>>();
	#count = 0;
	#pending: Item<Row>[] = [];
	#draining = false;
	#tail: Promise<unknown> = Promise.resolve();
	#compactAbove = 0;

	constructor(options: Omit<LedgerFileOptions<Row>, "onFate">) {
		this.#options = options;
		this.#file = new LedgerFile({
			...options,
			onFate: (by, fate) => {
				const item = this.#inFlight.get(by);
				if (item) item.fate ??= fate;
			},
		});
	}

	/** Tells this writer's lines from others'. Made for the first line: whoever only reads need not load what makes it. */
	get #id(): string {
		this.#ownId ??= randomBytes(4).toString("hex");
		return this.#ownId;
	}

	/** The file, read to its end and fit for use. */
	async ready(): Promise<Journal<Row>> {
		return this.#file.current() ?? this.#exclusive(() => this.#settle());
	}

	/** Writes a line, unless it is seen beforehand that it cannot take effect, and gives what became of it. */
	submit(
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
			if (attempt >= WRITE_ATTEMPTS) throw vanished(this.#options.path);
			const journal = await this.#file.settle();
			const [send, lost] = partition(open, (item) => item.possible(journal.replay));
			for (const item of lost) item.resolve({ kind: "void" });
			if (send.length === 0) return;
			open = await this.#send(journal, send);
		}
	}

	/** Appends, makes durable, and reads on to see what became of each line. Gives those that must be written again. */
	async #send(journal: Journal<Row>, items: readonly Item<Row>[]): Promise<readonly Item<Row>[]> {
		// Another call may have turned to a new file between the look and now.
		if (journal.closed) return items;
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
		const items: Item<Row>[] = [];
		const add = (line: Item<Row>["line"]): void => {
			this.#count += 1;
			const by = `${this.#id}-${this.#count.toString(36)}`;
			items.push({ by, possible: () => true, line, resolve: () => {}, reject: () => {}, fate: undefined });
		};
		for (const [key, mine] of known.entries) {
			const theirs = replay.entries.get(key);
			const from = replay.find(key)?.revision ?? 0;
			const told = known.comparable || theirs?.origin !== undefined;
			// A deletion is written as well: another process may remember the row from before it.
			const newer = theirs ? told && ageOf(theirs) < ageOf(mine) : true;
			if (newer) add((by, at) => encodeLine({ by, at, key, from, row: mine.row, origin: ageOf(mine) }));
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

	/** Compacts the file. `false` when other writers left no moment for it. */
	compact(): Promise<boolean> {
		return this.#exclusive(async () => (await this.#file.compact()) || (await this.#file.compact()));
	}

	close(): Promise<void> {
		return this.#exclusive(async () => this.#file.close());
	}

	#exclusive<T>(work: () => Promise<T>): Promise<T> {
		const run = this.#tail.then(work);
		this.#tail = run.catch(() => {});
		return run;
	}
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

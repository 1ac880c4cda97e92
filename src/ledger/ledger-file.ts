/**
 * Which file is the ledger now: turns to a new one when the old is sealed, finishes what a dead process began, makes
 * the first one, and replaces a damaged one. At every moment the path names a whole file.
 *
 * A file is replaced in three steps. The successor is written whole, under a random name. A seal that names it is
 * appended; it is valid only where nothing was written since its writer looked, and it voids all later lines. Then the
 * successor is renamed to the ledger's path, by whoever comes first: the name exists once, so only one rename succeeds.
 */
import { randomBytes } from "node:crypto";
import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { sleep } from "../primitives/abort.js";
import { SandboxError } from "../primitives/errors.js";
import { identifyDirectory, Journal, unreadable } from "./journal.js";
import { type Content, type Known, merge, type Rebuilt, toKnown, toLive, toRecovery } from "./known.js";
import type { DamageReason, Replay, ReplayOptions } from "./replay.js";
import { catchUp, seal } from "./sealing.js";
import { keepAside, moveInto, othersAtWork, removeStrays, removeSuccessor, Successor } from "./successor.js";

/** A ledger was found damaged or missing, and a new one was written. */
export interface LedgerDamage {
	readonly reason: DamageReason;
	/** The same as a clause for people. */
	readonly problem: string;
	readonly path: string;
	/** Where the damaged file is kept; `undefined` when there was none. */
	readonly setAside: string | undefined;
}

/** Named moments at which a process may die; for tests and fault points. */
export type LedgerStep = "before_append" | "appended" | "successor_written" | "sealed" | "moved";

export interface LedgerFileOptions<Row> extends ReplayOptions<Row> {
	readonly path: string;
	readonly rebuild: (() => Promise<Rebuilt<Row> | undefined>) | undefined;
	readonly onDamage: ((damage: LedgerDamage) => void) | undefined;
	readonly onStep: ((step: LedgerStep) => void) | undefined;
}

const PROBLEM: Readonly<Record<DamageReason, string>> = {
	missing: "the file was missing",
	header: "it does not begin as a ledger does",
	line: "a line was changed after it was written",
	lost_line: "a line that others follow is missing",
	truncated: "its end was cut off",
	older: "an older copy stood in its place",
};

const SETTLE_ATTEMPTS = 60;
const SEAL_ATTEMPTS = 20;
/** What reads as damage at first sight is looked at again after this time. */
const SECOND_LOOK_MS = 10;

export class LedgerFile<Row> {
	readonly #options: LedgerFileOptions<Row>;
	readonly #directory: string;
	readonly #path: string;
	#journal: Journal<Row> | undefined;
	/** What this process knew of a ledger that has lost it. */
	#memory: Known<Row> | undefined;
	#unmerged: Known<Row> | undefined;
	/** The directory in which the file was opened. What was known of one that was removed says nothing of the next. */
	#home: string | undefined;

	constructor(options: LedgerFileOptions<Row>) {
		this.#options = options;
		this.#path = options.path;
		this.#directory = dirname(options.path);
	}

	/** The file as it was last read, if it can be used as it is now: nothing to finish, to make or to mend. */
	current(): Journal<Row> | undefined {
		return this.#look() === "current" && !this.#unmerged ? this.#usable() : undefined;
	}

	/** The file, read to its end, once it can be used. Finishes, makes or mends it first where that is needed. */
	async settle(): Promise<Journal<Row>> {
		for (let attempt = 0; attempt < SETTLE_ATTEMPTS; attempt++) {
			if (attempt > 2) await sleep(1 + Math.random() * Math.min(50, 2 ** attempt));
			const standing = this.#look();
			const journal = this.#journal;
			if (standing === "missing" || !journal) await this.#guarded(() => this.#create());
			else if (standing === "sealed") await this.#guarded(() => this.#finish(journal));
			else if (standing === "damaged") await this.#guarded(() => this.#recover(journal));
			else return this.#usable();
		}
		throw new SandboxError("timeout", `ledger ${this.#path}: other processes kept replacing it`, {
			details: { what: "ledger", timeoutMs: SETTLE_ATTEMPTS * 50 },
			hint: "repeat the call",
		});
	}

	/** Writes the live rows to a new file, or lets another process that does so finish. `false` when other writers left no moment for it. */
	async compact(): Promise<boolean> {
		const journal = await this.settle();
		const outcome = await this.#guarded(() => this.#succeed(journal, undefined));
		await this.settle();
		return outcome !== "busy";
	}

	/** Whether another process seems to be compacting now. */
	othersCompact(): boolean {
		return othersAtWork(this.#directory, 2000);
	}

	/** What this process knew that another one, which has mended the ledger, may not have known. Given once. */
	takeUnmerged(): Known<Row> | undefined {
		const known = this.#unmerged;
		this.#unmerged = undefined;
		return known;
	}

	close(): void {
		this.#journal?.close();
		this.#journal = undefined;
	}

	#look(): "current" | "sealed" | "missing" | "damaged" {
		const journal = this.#journal;
		if (!journal) return this.#open(undefined);
		if (!journal.isUpToDate()) {
			if (!journal.readOn()) this.#reread(journal, "truncated");
			const current = journal.isCurrent();
			if (current === undefined) return "missing";
			if (!current) return this.#open(journal);
		}
		return standingOf(journal.replay);
	}

	#open(before: Journal<Row> | undefined): "current" | "sealed" | "missing" | "damaged" {
		const next = Journal.open(this.#path, this.#options);
		if (!next) return "missing";
		const home = identifyDirectory(this.#directory);
		if (before) this.#turn(before.replay, next.replay, home === this.#home);
		before?.close();
		this.#journal = next;
		this.#home = home;
		return standingOf(next.replay);
	}

	/** What is kept of the old file's rows when the path names another file. */
	#turn(before: Replay<Row>, next: Replay<Row>, sameHome: boolean): void {
		const continued = before.seals.length > 0 && !next.damage && !next.header?.recovered;
		const known = continued || !sameHome ? undefined : merge(this.#memory, toKnown(before));
		this.#memory = undefined;
		if (!known) return;
		const comparable = before.seals.length > 0 || next.header?.id === known.id;
		if (next.damage) this.#memory = known;
		else if (!comparable || next.header?.recovered) {
			const newer = comparable && (next.header?.lsn ?? 0) > known.top;
			this.#unmerged = merge(this.#unmerged, { ...known, comparable: newer });
		} else if (next.top() < known.top || lacks(next, known)) {
			next.damage = "older";
			this.#memory = known;
		}
	}

	/** Reads the file from its beginning and keeps what was known before. */
	#reread(journal: Journal<Row>, reason: DamageReason): void {
		this.#memory = merge(this.#memory, toKnown(journal.replay));
		journal.reread();
		if (reason === "truncated" || reason === "older") journal.replay.damage ??= reason;
	}

	#usable(): Journal<Row> {
		const journal = this.#journal;
		const [foreign] = journal?.replay.foreign ?? [];
		if (!journal || foreign !== undefined) {
			throw unreadable(
				this.#path,
				"read",
				new Error(`this version does not understand the row ${JSON.stringify(foreign)}`),
			);
		}
		if (journal.replay.laterVersion !== undefined) {
			throw unreadable(this.#path, "read", new Error(`it is of the later version ${journal.replay.laterVersion}`));
		}
		return journal;
	}

	/** Makes the ledger where there is none: the first of a new root, or one in place of one that is lost. */
	async #create(): Promise<void> {
		const before = this.#journal;
		const known =
			before && identifyDirectory(this.#directory) === this.#home
				? merge(this.#memory, toKnown(before.replay))
				: undefined;
		const rebuilt = await this.#options.rebuild?.();
		const fresh = !known && !rebuilt?.rows.size && !rebuilt?.epochFloor;
		mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
		const content = fresh
			? { id: newId(), lsn: 1, epoch: 0, recovered: false, rows: new Map() }
			: this.#recovery(known ?? EMPTY, known !== undefined, rebuilt);
		const successor = await Successor.write(this.#directory, content);
		let placed: boolean;
		try {
			this.#step("successor_written");
			placed = successor.placeAt(this.#path);
		} finally {
			await successor.discard();
		}
		if (!placed) return;
		before?.close();
		this.#journal = undefined;
		this.#memory = undefined;
		if (!fresh) this.#tellDamage("missing", undefined);
	}

	/** Puts the successor of a sealed file in its place, whoever has written it. */
	async #finish(journal: Journal<Row>): Promise<void> {
		const { seals } = journal.replay;
		for (const seal of seals) {
			if (seal.aside !== undefined) keepAside(this.#path, this.#directory, seal.aside, journal.id);
			if (moveInto(this.#directory, seal.next, this.#path)) {
				this.#step("moved");
				for (const other of seals) if (other !== seal) removeSuccessor(this.#directory, other.next);
				if (seal.aside !== undefined) this.#tellDamage(toReason(seal.problem), seal.aside);
				return;
			}
			// Its name is gone: either it stands in its place by now, or it is lost and nobody can put it there any more.
			if (!journal.isCurrent()) return;
		}
		const damaged = seals.find((seal) => seal.aside !== undefined);
		await this.#succeed(
			journal,
			damaged ? { reason: toReason(damaged.problem), rebuilt: await this.#options.rebuild?.() } : undefined,
		);
	}

	async #recover(journal: Journal<Row>): Promise<void> {
		const reason = journal.replay.damage ?? "line";
		await sleep(SECOND_LOOK_MS);
		if (this.#look() !== "damaged" || this.#journal !== journal) return;
		this.#reread(journal, reason);
		if (!journal.replay.damage) {
			this.#memory = undefined;
			return;
		}
		await this.#succeed(journal, { reason, rebuilt: await this.#options.rebuild?.() });
	}

	/** Writes a successor and seals the file with it. `overtaken`: another process was first. `busy`: others left no moment for it. */
	async #succeed(
		journal: Journal<Row>,
		recovery: { reason: DamageReason; rebuilt: Rebuilt<Row> | undefined } | undefined,
	): Promise<"sealed" | "overtaken" | "busy"> {
		removeStrays(this.#directory, (name) => {
			journal.readOn();
			return journal.isCurrent() !== true || journal.replay.seals.some((seal) => seal.next === name);
		});
		for (let attempt = 0; attempt < SEAL_ATTEMPTS; attempt++) {
			if (attempt > 0) await sleep(Math.random() * 5);
			const { replay } = journal;
			if (this.#look() === "missing" || this.#journal !== journal || journal.replay !== replay) return "overtaken";
			const seals = replay.seals.length;
			const from = { consumed: replay.consumed, examined: journal.examined, sealLines: replay.sealLines };
			const content = recovery
				? this.#recovery(merge(this.#memory, toKnown(replay)), replay.placed, recovery.rebuilt)
				: toContent(replay);
			const successor = await Successor.write(this.#directory, content);
			let sealed = false;
			try {
				this.#step("successor_written");
				// Behind a seal nothing counts, so there is nothing to carry over; a damaged file is written anew instead.
				const offset = await catchUp(journal, successor, from, recovery === undefined && seals === 0);
				sealed = offset !== undefined && seal(journal, successor, offset, this.#directory, recovery?.reason);
				if (sealed) await journal.sync();
			} finally {
				if (sealed) await successor.close();
				else await successor.discard();
			}
			if (sealed) {
				this.#step("sealed");
				return "sealed";
			}
			if (replay.seals.length > seals) return "overtaken";
		}
		return "busy";
	}

	#recovery(known: Known<Row>, placed: boolean, rebuilt: Rebuilt<Row> | undefined): Content<Row> {
		return toRecovery(known, rebuilt, { newId: newId(), placed, nowMs: Date.now() });
	}

	#tellDamage(reason: DamageReason, aside: string | undefined): void {
		const setAside = aside === undefined ? undefined : `${this.#directory}/${aside}`;
		this.#options.onDamage?.({ reason, problem: PROBLEM[reason], path: this.#path, setAside });
	}

	#step(step: LedgerStep): void {
		this.#options.onStep?.(step);
	}

	async #guarded<T>(work: () => Promise<T>): Promise<T> {
		try {
			return await work();
		} catch (error) {
			throw error instanceof Error && "syscall" in error ? unreadable(this.#path, "write", error) : error;
		}
	}
}

const EMPTY: Known<never> = { id: undefined, entries: new Map(), epoch: 0, top: 0, comparable: true };

function standingOf<Row>(replay: Replay<Row>): "current" | "sealed" | "damaged" {
	if (replay.laterVersion !== undefined) return "current";
	if (replay.seals.length > 0) return "sealed";
	return replay.damage ? "damaged" : "current";
}

function toContent<Row>(replay: Replay<Row>): Content<Row> {
	return {
		id: replay.header?.id ?? newId(),
		lsn: replay.positionOf(replay.consumed),
		epoch: replay.epoch,
		recovered: false,
		rows: toLive(replay.entries),
	};
}

/** Whether a file that took the place of another without a seal is a copy from before some of what was known. */
function lacks<Row>(next: Replay<Row>, known: Known<Row>): boolean {
	const begin = next.header?.lsn ?? 0;
	for (const [key, { revision, row }] of known.entries) {
		const theirs = next.entries.get(key);
		if (theirs ? theirs.revision < revision : row !== undefined && revision >= begin) return true;
	}
	return false;
}

function toReason(problem: string | undefined): DamageReason {
	return problem !== undefined && problem in PROBLEM ? (problem as DamageReason) : "line";
}

function newId(): string {
	return randomBytes(8).toString("hex");
}

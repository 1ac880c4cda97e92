/**
 * One lock on disk: a directory that holds its owner's record. It appears and disappears by rename, so that it is never
 * there without its owner, and a dead owner is known at once.
 */
import { randomBytes } from "node:crypto";
import {
	linkSync,
	lstatSync,
	mkdirSync,
	readdirSync,
	readFileSync,
	renameSync,
	rmSync,
	statSync,
	unlinkSync,
	writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { systemCode } from "../primitives/errors.js";
import { type Owner, ownerState, parseOwner, thisOwner } from "../primitives/owner.js";

/** Who holds a lock, as another process sees it. */
export interface Holder {
	/** `undefined` when the record cannot be read. */
	readonly owner: Owner | undefined;
	/** Random, per hold. */
	readonly hold: string;
	/** When the holder last showed that it runs, by its own clock. Only whether it changes is of use. */
	readonly beat: number;
}

const RECORD = "owner.json";
const LEFTOVER = /\.lock\.[0-9a-f]{16}\.(?:new|gone|guard)$/;
const LEFTOVER_MS = 3_600_000;

/** Who holds the lock of this path now, if anybody. */
export function readHolder(path: string): Holder | undefined {
	const stat = lstatSync(path, { throwIfNoEntry: false });
	if (!stat) return undefined;
	const record = readRecord(join(path, RECORD));
	return { owner: record?.owner, hold: record?.hold ?? "", beat: stat.mtimeMs };
}

/** Takes the lock for a hold. Throws a system error `EEXIST` when somebody has it. */
export function take(path: string, hold: string): void {
	const prepared = `${path}.${randomBytes(8).toString("hex")}.new`;
	mkdirSync(prepared, { mode: 0o700 });
	try {
		writeFileSync(join(prepared, RECORD), JSON.stringify({ ...thisOwner(), hold }), { mode: 0o600 });
		// A rename onto an empty directory would replace it, and one that has lost its record is still somebody's.
		if (statSync(path, { throwIfNoEntry: false })) throw taken(path);
		renameSync(prepared, path);
	} catch (error) {
		rmSync(prepared, { recursive: true, force: true });
		const code = systemCode(error);
		throw code === "ENOTEMPTY" || code === "EEXIST" || code === "ENOTDIR" ? taken(path) : error;
	}
}

/** Gives the lock back, if this hold has it. */
export function giveBack(path: string, hold: string): void {
	if (hold !== "" && readHolder(path)?.hold === hold) discard(path);
}

/** Takes away a lock from a holder that is not coming back. Does nothing when the lock is another's by now. */
export function breakLock(path: string, seen: Holder): void {
	const guard = `${path}.break`;
	if (!takeGuard(guard, path)) return;
	try {
		const now = readHolder(path);
		if (now && now.hold === seen.hold && now.beat === seen.beat) discard(path);
		removeLeftovers(dirname(path));
	} finally {
		unlinkQuietly(guard);
	}
}

/** Removes what processes that died while they took or gave back a lock have left. */
export function removeLeftovers(directory: string): void {
	for (const name of readdirSync(directory)) {
		if (!LEFTOVER.test(name)) continue;
		const path = join(directory, name);
		const stat = lstatSync(path, { throwIfNoEntry: false });
		if (!stat) continue;
		const owner = readRecord(stat.isDirectory() ? join(path, RECORD) : path)?.owner;
		const state = owner ? ownerState(owner) : "unknown";
		const old = Date.now() - stat.mtimeMs > LEFTOVER_MS;
		if (state === "dead" || (state === "unknown" && old)) rmSync(path, { recursive: true, force: true });
	}
}

/** One at a time breaks a lock: of two that saw the same dead holder, the slower one would break the faster one's lock. */
function takeGuard(guard: string, path: string): boolean {
	const draft = `${path}.${randomBytes(8).toString("hex")}.guard`;
	writeFileSync(draft, JSON.stringify({ ...thisOwner(), hold: "" }), { flag: "wx", mode: 0o600 });
	try {
		linkSync(draft, guard);
		return true;
	} catch (error) {
		if (systemCode(error) !== "EEXIST") throw error;
		dropDeadGuard(guard, `${draft.slice(0, -"guard".length)}gone`);
		return false;
	} finally {
		unlinkQuietly(draft);
	}
}

function dropDeadGuard(guard: string, aside: string): void {
	const stat = lstatSync(guard, { throwIfNoEntry: false });
	const owner = readRecord(guard)?.owner;
	if (!stat || (owner && ownerState(owner) !== "dead" && Date.now() - stat.mtimeMs < LEFTOVER_MS)) return;
	try {
		renameSync(guard, aside);
		unlinkSync(aside);
	} catch {
		// Another process was faster.
	}
}

function discard(path: string): void {
	const gone = `${path}.${randomBytes(8).toString("hex")}.gone`;
	renameSync(path, gone);
	rmSync(gone, { recursive: true, force: true });
}

function readRecord(path: string): { owner: Owner | undefined; hold: string } | undefined {
	try {
		const value: unknown = JSON.parse(readFileSync(path, "utf8"));
		const hold = (value as { hold?: unknown } | null)?.hold;
		return { owner: parseOwner(value), hold: typeof hold === "string" ? hold : "" };
	} catch {
		return undefined;
	}
}

function taken(path: string): Error {
	return Object.assign(new Error(`${path} is taken`), { code: "EEXIST" });
}

function unlinkQuietly(path: string): void {
	try {
		unlinkSync(path);
	} catch {
		// It is gone already.
	}
}

/**
 * One lock on disk: a symbolic link that points nowhere; its target is the owner's record. It appears whole or not at
 * all, with its owner, so that a dead owner is known at once.
 */
import { lstatSync, readdirSync, readlinkSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { systemCode } from "../primitives/errors.js";
import { type Owner, ownerState, parseOwner, thisOwner } from "../primitives/owner.js";

/** Who holds a lock, as another process sees it. */
export interface Holder {
	/** `undefined` when what stands there is not a lock of ours. */
	readonly owner: Owner | undefined;
	/** Random, per hold. */
	readonly hold: string;
	/** When the holder last showed that it runs, by its own clock. Only whether it changes is of use. */
	readonly beat: number;
}

/** A guard that cannot be read as a process's is removed at this age. */
const GUARD_MS = 60_000;

/** Who holds the lock of this path now, if anybody. */
export function readHolder(path: string): Holder | undefined {
	const stat = lstatSync(path, { throwIfNoEntry: false });
	if (!stat) return undefined;
	let target: string;
	try {
		target = readlinkSync(path);
	} catch (error) {
		if (systemCode(error) === "ENOENT") return undefined;
		return { owner: undefined, hold: "", beat: stat.mtimeMs };
	}
	return { ...parseRecord(target), beat: stat.mtimeMs };
}

/** Takes the lock for a hold. Throws a system error `EEXIST` when somebody has it. */
export function take(path: string, hold: string): void {
	symlinkSync(toRecord(thisOwner(), hold), path);
}

/** Gives the lock back, if this hold has it. */
export function giveBack(path: string, hold: string): void {
	if (hold !== "" && readHolder(path)?.hold === hold) rmSync(path, { force: true });
}

/** Takes away a lock from a holder that is not coming back. Does nothing when the lock is another's by now. */
export function breakLock(path: string, seen: Holder): void {
	const guard = `${path}.break`;
	if (!takeGuard(guard)) return;
	try {
		const now = readHolder(path);
		if (now && now.hold === seen.hold && now.beat === seen.beat) rmSync(path, { recursive: true, force: true });
	} finally {
		rmSync(guard, { force: true });
	}
}

/** Removes the locks of processes that died while they held them. */
export function removeDead(directory: string): void {
	for (const name of readdirSync(directory)) {
		const path = join(directory, name);
		if (name.endsWith(".lock.break")) removeDeadGuard(path);
		if (!name.endsWith(".lock")) continue;
		const holder = readHolder(path);
		if (holder?.owner && ownerState(holder.owner) === "dead") breakLock(path, holder);
	}
}

/** One at a time breaks a lock: of two that saw the same dead holder, the slower one would break the faster one's lock. */
function takeGuard(guard: string): boolean {
	try {
		take(guard, "guard");
		return true;
	} catch (error) {
		if (systemCode(error) !== "EEXIST") throw error;
		removeDeadGuard(guard);
		return false;
	}
}

function removeDeadGuard(guard: string): void {
	const holder = readHolder(guard);
	if (!holder) return;
	const state = holder.owner ? ownerState(holder.owner) : "unknown";
	if (state === "dead" || (state === "unknown" && Date.now() - holder.beat > GUARD_MS)) rmSync(guard, { force: true });
}

/**
 * `<boot>.<pid namespace>.<pid>.<start>.<hold>`, numbers in base 36. Below 60 bytes: so short a link needs no block of its own,
 * and a lock can be taken on a full disk.
 */
export function toRecord(owner: Owner, hold: string): string {
	const boot = Buffer.from(owner.bootId.replaceAll("-", ""), "hex").toString("base64url");
	const namespace = Number(/\d+/.exec(owner.pidNamespace)?.[0] ?? 0);
	return [boot, namespace.toString(36), owner.pid.toString(36), owner.startTime.toString(36), hold].join(".");
}

function parseRecord(text: string): { owner: Owner | undefined; hold: string } {
	const [boot = "", namespace = "", pid = "", startTime = "", hold = "", ...more] = text.split(".");
	const hex = Buffer.from(boot, "base64url").toString("hex");
	const bootId = hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
	const inode = Number.parseInt(namespace, 36);
	const owner = parseOwner({
		bootId,
		pidNamespace: inode > 0 ? `pid:[${inode}]` : "",
		pid: Number.parseInt(pid, 36),
		startTime: Number.parseInt(startTime, 36),
		nonce: "",
	});
	return owner && hold !== "" && more.length === 0 ? { owner, hold } : { owner: undefined, hold: "" };
}

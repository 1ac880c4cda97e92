/**
 * Which root this is: a random id kept in the file `id`, and with it the directory it was made for.
 *
 * The labels of containers say whose they are by this id, so it must neither change by accident nor be held by two roots:
 * - `id` holds `{ id, device, inode, path }`. A record whose inode is another directory's was copied along with the root: the copy
 *   gets an id of its own and leaves the original's containers alone. One whose inode and path still agree but whose device
 *   number has changed is the same root (numbers are given anew at boot or mount), as is one that was only moved.
 * - `id.copy` holds the same once more. A damaged or lost `id` is made again from it.
 * - Where both are lost a new id is made, and containers of the old one are no longer known as ours.
 *
 * Several processes may do all this at once and agree: the first to link a file decides what it says.
 */
import { createHash, randomBytes } from "node:crypto";
import {
	type BigIntStats,
	closeSync,
	fsyncSync,
	linkSync,
	openSync,
	readFileSync,
	realpathSync,
	renameSync,
	unlinkSync,
	writeFileSync,
	writeSync,
} from "node:fs";
import { join } from "node:path";
import { systemCode } from "../primitives/errors.js";

/**
 * How a root came by its id: `known` had it, `made` is new, `copied` is a copy of another root and has a new one,
 * `repaired` lost `id` and has the old one from `id.copy`, `renewed` lost both and has a new one.
 */
export type RootOrigin = "known" | "made" | "copied" | "repaired" | "renewed";

export interface RootRecord {
	readonly id: string;
	readonly device: string;
	readonly inode: string;
	readonly path: string;
	/** The id of the root this one was copied from. */
	readonly copiedFrom?: string;
}

/** What the file says: a record, the text of something that is none, or that there is no file. */
export type IdFile = { readonly record: RootRecord } | { readonly damaged: string } | undefined;

const MAX_ATTEMPTS = 20;

export function readIdFile(path: string): IdFile {
	let text: string;
	try {
		text = readFileSync(path, "utf8");
	} catch (error) {
		if (systemCode(error) === "ENOENT") return undefined;
		throw error;
	}
	const record = parseRecord(text);
	return record ? { record } : { damaged: text };
}

/** Whether the record was written for this directory at this path, so that nothing needs to be done. */
export function isCurrent(record: RootRecord, stat: BigIntStats, path: string): boolean {
	return isSameDirectory(record, stat) && record.path === path;
}

/** The root's record, made or made right where it has to be. The directory is known to be a root or to become one. */
export function ensureRecord(root: string, stat: BigIntStats): { record: RootRecord; origin: RootOrigin } {
	const idPath = join(root, "id");
	const copyPath = join(root, "id.copy");
	const here = { device: String(stat.dev), inode: String(stat.ino), path: realpathSync(root) };
	const isThisRoot = (record: RootRecord): boolean =>
		isSameDirectory(record, stat) || (record.inode === here.inode && record.path === here.path);

	for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
		const file = readIdFile(idPath);
		if (file && "record" in file && isThisRoot(file.record)) {
			const record = { ...file.record, ...here };
			if (!isCurrent(file.record, stat, here.path)) replaceFile(idPath, record);
			const copy = readIdFile(copyPath);
			if (!copy || !("record" in copy) || !isCurrent(copy.record, stat, here.path)) replaceFile(copyPath, record);
			return { record, origin: "known" };
		}
		const copy = readIdFile(copyPath);
		const kept = copy && "record" in copy && isThisRoot(copy.record) ? copy.record : undefined;
		if (!file) {
			const record = kept ? { ...kept, ...here } : { id: newRootId(), ...here };
			if (!linkFile(idPath, record)) continue;
			if (!kept) replaceFile(copyPath, record);
			return { record, origin: kept ? "repaired" : "made" };
		}
		const before = "damaged" in file ? file.damaged : JSON.stringify(file.record);
		// The successor of one content in one directory is decided once and for all, by whoever links its file first.
		const key = createHash("sha256").update(`${here.device}:${here.inode}:${before}`).digest("hex").slice(0, 16);
		const successorPath = join(root, `id.after-${key}`);
		const repaired = "damaged" in file && kept ? { ...kept, ...here } : undefined;
		const copied = "record" in file ? { copiedFrom: file.record.id } : {};
		linkFile(successorPath, repaired ?? { id: newRootId(), ...here, ...copied });
		const successor = readIdFile(successorPath);
		if (!successor || !("record" in successor)) {
			unlinkSync(successorPath);
			continue;
		}
		if ("damaged" in file) writeFileSync(join(root, `id.damaged-${key}`), before, { mode: 0o600 });
		const now = readIdFile(idPath);
		if (!now || ("damaged" in now ? now.damaged : JSON.stringify(now.record)) !== before) continue;
		replaceFile(idPath, successor.record);
		replaceFile(copyPath, successor.record);
		const origin = "record" in file ? "copied" : repaired?.id === successor.record.id ? "repaired" : "renewed";
		return { record: successor.record, origin };
	}
	throw Object.assign(new Error("its id keeps changing under our hands"), { code: "EAGAIN" });
}

function newRootId(): string {
	return randomBytes(16).toString("hex");
}

function isSameDirectory(record: RootRecord, stat: BigIntStats): boolean {
	return record.inode === String(stat.ino) && record.device === String(stat.dev);
}

function parseRecord(text: string): RootRecord | undefined {
	let value: Partial<Record<keyof RootRecord, unknown>> | null;
	try {
		value = JSON.parse(text) as Partial<Record<keyof RootRecord, unknown>> | null;
	} catch {
		return undefined;
	}
	if (typeof value !== "object" || value === null) return undefined;
	const { id, device, inode, path, copiedFrom } = value;
	const isNumber = (field: unknown): field is string => typeof field === "string" && /^\d+$/.test(field);
	if (typeof id !== "string" || !/^[0-9a-f]{32}$/.test(id)) return undefined;
	if (!isNumber(device) || !isNumber(inode) || typeof path !== "string") return undefined;
	return { id, device, inode, path, ...(typeof copiedFrom === "string" ? { copiedFrom } : {}) };
}

/** Writes a file whole under a name of its own, and hands it to `place`, which moves or links it. */
function placeFile(path: string, record: RootRecord, place: (temporary: string) => void): void {
	const temporary = `${path}.${randomBytes(8).toString("hex")}.tmp`;
	const fd = openSync(temporary, "wx", 0o600);
	try {
		try {
			writeSync(fd, `${JSON.stringify(record)}\n`);
			fsyncSync(fd);
		} finally {
			closeSync(fd);
		}
		place(temporary);
	} finally {
		try {
			unlinkSync(temporary);
		} catch {
			// Renamed, or left for a file system that will not give it up: the name says that it is nothing.
		}
	}
}

function replaceFile(path: string, record: RootRecord): void {
	placeFile(path, record, (temporary) => renameSync(temporary, path));
}

/** Whether this call made the file; one that is there is left as it is. */
function linkFile(path: string, record: RootRecord): boolean {
	let made = true;
	placeFile(path, record, (temporary) => {
		try {
			linkSync(temporary, path);
		} catch (error) {
			if (systemCode(error) !== "EEXIST") throw error;
			made = false;
		}
	});
	return made;
}

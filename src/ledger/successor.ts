/** Writing the file that takes a ledger's place, and putting it there. A half-written one never has a ledger's name. */
import { randomBytes } from "node:crypto";
import {
	closeSync,
	fsyncSync,
	linkSync,
	openSync,
	readdirSync,
	readFileSync,
	renameSync,
	statSync,
	unlinkSync,
} from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { systemCode } from "../primitives/errors.js";
import { type Owner, ownerState, parseOwner, thisOwner } from "../primitives/owner.js";
import { type FileId, identify, sameFile } from "./journal.js";
import type { Content } from "./known.js";
import { decodeLine, encodeLine, LEDGER_VERSION, NEXT_NAME } from "./line.js";

/** A file that nobody needs is removed at this age where its owner cannot be seen. */
const STRAY_MS = 3_600_000;

export class Successor {
	readonly name: string;
	readonly #directory: string;
	readonly #file: FileHandle;

	private constructor(directory: string, name: string, file: FileHandle) {
		this.#directory = directory;
		this.name = name;
		this.#file = file;
	}

	/** Writes a whole ledger file under a name of its own, durably. */
	static async write<Row>(directory: string, content: Content<Row>): Promise<Successor> {
		const { pid, startTime } = thisOwner();
		const name = `ledger.next-${pid}-${startTime}-${randomBytes(8).toString("hex")}.jsonl`;
		const { id, lsn, epoch, recovered, rows } = content;
		const lines = [
			encodeLine({ ledger: LEDGER_VERSION, id, lsn, rows: rows.size, epoch, owner: thisOwner(), recovered }),
		];
		for (const [key, entry] of rows) lines.push(encodeLine({ key, ...entry }));
		const successor = new Successor(directory, name, await open(join(directory, name), "ax", 0o600));
		try {
			await successor.append(Buffer.from(lines.join("\n")));
			syncDirectory(directory);
		} catch (error) {
			await successor.discard();
			throw error;
		}
		return successor;
	}

	/** Adds bytes, durably. */
	async append(bytes: Buffer): Promise<void> {
		await this.#file.appendFile(bytes);
		await this.#file.sync();
	}

	/** Gives the file a name that must be free. `false` when it is taken. */
	placeAt(path: string): boolean {
		try {
			linkSync(join(this.#directory, this.name), path);
			syncDirectory(this.#directory);
			return true;
		} catch (error) {
			if (systemCode(error) === "EEXIST") return false;
			throw error;
		}
	}

	async close(): Promise<void> {
		await this.#file.close();
	}

	async discard(): Promise<void> {
		removeQuietly(join(this.#directory, this.name));
		await this.close();
	}
}

/** Moves a finished successor to the ledger's path. `false` when there is none of this name (any more). */
export function moveInto(directory: string, name: string, path: string): boolean {
	try {
		renameSync(join(directory, name), path);
	} catch (error) {
		if (systemCode(error) === "ENOENT") return false;
		throw error;
	}
	syncDirectory(directory);
	return true;
}

/** A free name for a damaged ledger. */
export function asideName(directory: string, nowMs: number): string {
	const time = new Date(nowMs).toISOString().replaceAll(/[-:.]/g, "");
	for (let n = 1; ; n++) {
		const name = `ledger.damaged-${time}-${n}.jsonl`;
		if (!identify(join(directory, name))) return name;
	}
}

/** Gives a damaged file a second name, so that it stays when the path is given to another. Nothing is overwritten. */
export function keepAside(path: string, directory: string, name: string, id: FileId): void {
	let target = join(directory, name);
	for (let n = 1; ; n++) {
		try {
			linkSync(path, target);
			break;
		} catch (error) {
			if (systemCode(error) === "ENOENT") return;
			if (systemCode(error) !== "EEXIST") throw error;
			const taken = identify(target);
			if (taken && sameFile(taken, id)) return;
			target = join(directory, name.replace(/\d+(?=\.jsonl$)/, String(n)));
		}
	}
	const linked = identify(target);
	// Another process has already put the new file there; it has kept the damaged one too.
	if (linked && !sameFile(linked, id)) removeQuietly(target);
}

/** Whether another process is at work on a successor now. */
export function othersAtWork(directory: string, withinMs: number): boolean {
	return strays(directory).some((name) => ageMs(join(directory, name)) < withinMs);
}

/**
 * Removes successors that were begun by processes that died before they could use them. `isNeeded` is asked after an
 * owner was seen to be dead, so that it knows every seal that this owner can have written.
 */
export function removeStrays(directory: string, isNeeded: (name: string) => boolean): void {
	for (const name of strays(directory)) {
		const path = join(directory, name);
		const state = ownerState(ownerOf(directory, name));
		const left = state === "dead" || (state === "unknown" && ageMs(path) > STRAY_MS);
		if (left && !isNeeded(name)) removeQuietly(path);
	}
}

/** Removes a successor that lost to another. */
export function removeSuccessor(directory: string, name: string): void {
	removeQuietly(join(directory, name));
}

function strays(directory: string): string[] {
	return readdirSync(directory).filter((name) => NEXT_NAME.test(name));
}

function ageMs(path: string): number {
	const stat = statSync(path, { throwIfNoEntry: false });
	return stat ? Date.now() - stat.mtimeMs : Number.POSITIVE_INFINITY;
}

/** By the file's header; by its name where its writer died before it wrote one. */
function ownerOf(directory: string, name: string): Owner {
	const [, pid, startTime] = NEXT_NAME.exec(name) ?? [];
	const named = { ...thisOwner(), pid: Number(pid), startTime: Number(startTime) };
	try {
		const bytes = readFileSync(join(directory, name));
		const end = bytes.indexOf(0x0a);
		const decoded = decodeLine(end < 0 ? bytes : bytes.subarray(0, end));
		return (decoded.fate === "ok" && "owner" in decoded.line && parseOwner(decoded.line.owner)) || named;
	} catch {
		return named;
	}
}

function removeQuietly(path: string): void {
	try {
		unlinkSync(path);
	} catch {
		// It is gone, or stays as a stray.
	}
}

function syncDirectory(directory: string): void {
	const fd = openSync(directory, "r");
	try {
		fsyncSync(fd);
	} finally {
		closeSync(fd);
	}
}

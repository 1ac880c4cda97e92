/** Deleting a directory tree that hostile code filled and may still be changing: never outside of it, never through a link. */

import { randomBytes } from "node:crypto";
import { lstatSync, readFileSync, readlinkSync, renameSync, rmdirSync, unlinkSync } from "node:fs";
import { unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { throwIfAborted } from "../primitives/abort.js";
import { messageOf, SandboxError, systemCode } from "../primitives/errors.js";
import {
	type Directory,
	displayName,
	mountIdOf,
	openChildUnlocked,
	openDirectory,
	plainName,
	readNames,
} from "./fd-walk.js";
import { TimeSlice } from "./time-slice.js";

/**
 * Empties a directory with rights the caller lacks (a helper container as root). It is handed the absolute path of a
 * directory in the trash that no sandbox mounts by this path; it may leave the directory itself.
 */
export type Purge = (directory: string, signal: AbortSignal | undefined) => Promise<void>;

export interface RemoveTreeOptions {
	/** Called when entries could not be deleted for lack of rights. Left out, those are an error. */
	readonly purge?: Purge | undefined;
	/** Called now and then with the number of entries deleted so far. */
	readonly onRemoved?: ((entries: number) => void) | undefined;
	readonly signal?: AbortSignal | undefined;
	/** Walk as on systems without `/proc/self/fd`. */
	readonly byPath?: boolean;
}

/** Directories deeper than this are moved to the top of the tree, which bounds the open descriptors at two for each level. */
const MAX_DEPTH = 32;
/** How often a directory is read again because something appeared in it meanwhile. */
const MAX_RESCANS = 10;
/** Ends a race with somebody who nests faster than we delete; ordinary trees need one pass for each MAX_DEPTH levels. */
const MAX_PASSES = 20_000;
/** Files with more than this on disk are deleted off the event loop: freeing their blocks takes long. */
const LARGE_FILE_BYTES = 32 * 1024 * 1024;

/**
 * Deletes the directory at `path` and everything in it, and gives the number of entries deleted; 0 when there was nothing.
 *
 * The directory that holds `path` is trusted, nothing below is: links are deleted and never followed, other file systems are
 * not entered, directories without rights are given them on the way. A file or link at `path` itself is deleted.
 * Work is cut into slices of a few milliseconds. Another process may be deleting the same tree: what is gone is fine.
 *
 * Throws `workspace_unusable` naming the first path that could not be deleted; the rest of the tree is gone by then.
 */
export async function removeTree(path: string, options: RemoveTreeOptions = {}): Promise<number> {
	const parent = openDirectory(dirname(path), options.byPath === undefined ? {} : { byPath: options.byPath });
	try {
		const name = plainName(basename(path));
		const removal = new Removal(parent, name, options);
		let outcome = await removal.run();
		if (outcome.denied && options.purge) {
			await options.purge(path, options.signal);
			outcome = await removal.run();
		}
		const left = outcome.left[0];
		if (left) {
			const place = join(path, left.path);
			throw new SandboxError("workspace_unusable", `could not delete ${place}: ${left.reason}`, {
				details: { path: place, reason: left.reason },
				hint: "look for mounts and immutable files below it, delete it as root, then remove the sandbox again",
				...(left.cause === undefined ? {} : { cause: left.cause }),
			});
		}
		return removal.removed;
	} finally {
		parent.close();
	}
}

interface Left {
	readonly path: string;
	readonly reason: string;
	readonly cause?: unknown;
}

interface Outcome {
	readonly left: readonly Left[];
	/** Whether something is left for lack of rights. */
	readonly denied: boolean;
}

/** The way from the top to an entry, for messages only. */
interface Trail {
	readonly name: Buffer;
	readonly above: Trail | undefined;
}

class Removal {
	removed = 0;
	#left: Left[] = [];
	#denied = false;
	readonly #parent: Directory;
	readonly #name: Buffer;
	readonly #options: RemoveTreeOptions;
	readonly #slice: TimeSlice;
	#top: Directory | undefined;
	#device = 0;
	#mountId: string | undefined;
	#moved = 0;

	constructor(parent: Directory, name: Buffer, options: RemoveTreeOptions) {
		this.#parent = parent;
		this.#name = name;
		this.#options = options;
		this.#slice = new TimeSlice(() => {
			throwIfAborted(options.signal);
			options.onRemoved?.(this.removed);
		});
	}

	/** Passes over the tree until it is gone or a pass brings it no further. */
	async run(): Promise<Outcome> {
		throwIfAborted(this.#options.signal);
		for (let pass = 0, idle = 0; pass < MAX_PASSES && idle < MAX_RESCANS; pass++) {
			this.#left = [];
			this.#denied = false;
			const removedBefore = this.removed;
			const movedBefore = this.#moved;
			if (await this.#removeTop()) break;
			if (this.#moved > movedBefore) continue;
			if (this.#left.length > 0) break;
			idle = this.removed > removedBefore ? 0 : idle + 1;
			if (idle === MAX_RESCANS || pass === MAX_PASSES - 1) this.#note(undefined, "new entries keep appearing in it");
		}
		return { left: this.#left, denied: this.#denied };
	}

	async #removeTop(): Promise<boolean> {
		const top = this.#open(this.#parent, this.#name, undefined);
		if (typeof top === "string")
			return top === "absent" || (top === "other" && this.#unlink(this.#parent, this.#name, undefined));
		try {
			this.#top = top;
			this.#device = top.stat().dev;
			this.#mountId = hasMountsBelow(top) ? mountIdOf(top) : undefined;
			await this.#empty(top, undefined, 1);
		} finally {
			this.#top = undefined;
			top.close();
		}
		return this.#left.length === 0 && this.#rmdir(this.#parent, this.#name, undefined) === "gone";
	}

	/** Deletes what is in an open directory. */
	async #empty(directory: Directory, trail: Trail | undefined, depth: number): Promise<void> {
		try {
			for (const batch of readNames(directory)) {
				for (const entry of batch) {
					const entryTrail = { name: entry.name, above: trail };
					if (entry.type === "file" && isLarge(directory, entry.name)) {
						// Its own failure shows when the name is unlinked again below.
						await unlink(directory.at(entry.name)).catch(() => {});
					}
					if (entry.type === "directory" || !this.#unlink(directory, entry.name, entryTrail)) {
						await this.#removeDirectory(directory, entry.name, entryTrail, depth);
					}
					if (this.#slice.isOver()) await this.#slice.next();
				}
			}
		} catch (error) {
			if (systemCode(error) === undefined) throw error;
			if (systemCode(error) !== "ENOENT") this.#fail(trail, error);
		}
	}

	async #removeDirectory(parent: Directory, name: Buffer, trail: Trail, depth: number): Promise<void> {
		for (let scan = 0; scan < MAX_RESCANS; scan++) {
			const child = this.#open(parent, name, trail);
			if (child === "absent" || child === "left") return;
			if (child === "other") {
				if (this.#unlink(parent, name, trail)) return;
				continue;
			}
			const leftBefore = this.#left.length;
			try {
				if (this.#isElsewhere(child)) return this.#note(trail, "another file system is mounted there");
				if (depth >= MAX_DEPTH) return this.#moveUp(parent, name, trail);
				await this.#empty(child, trail, depth + 1);
			} finally {
				child.close();
			}
			if (this.#left.length > leftBefore || this.#rmdir(parent, name, trail) === "gone") return;
		}
		// Something keeps filling it; the next pass over the whole tree looks again.
	}

	/** The directory behind a name; or that there is none, something else, or nothing that may be opened. */
	#open(parent: Directory, name: Buffer, trail: Trail | undefined): Directory | "absent" | "other" | "left" {
		try {
			return openChildUnlocked(parent, name);
		} catch (error) {
			const code = systemCode(error);
			if (code === "ENOENT") return "absent";
			if (code === "ENOTDIR" || code === "ELOOP") return "other";
			// An empty directory of somebody else's can go without being opened.
			if ((code === "EACCES" || code === "EPERM") && this.#rmdir(parent, name, trail, true) === "gone") return "absent";
			this.#fail(trail, error);
			return "left";
		}
	}

	/** Whether the name is gone. False when it is a directory by now, or was noted as left. */
	#unlink(parent: Directory, name: Buffer, trail: Trail | undefined): boolean {
		try {
			unlinkSync(parent.at(name));
			this.removed += 1;
			return true;
		} catch (error) {
			const code = systemCode(error);
			if (code === "ENOENT") return true;
			// Linux says EISDIR for a directory; POSIX allows EPERM, which here also means an immutable file.
			if (code === "EISDIR" || (code === "EPERM" && isDirectory(parent, name))) return false;
			this.#fail(trail, error);
			return true;
		}
	}

	#rmdir(parent: Directory, name: Buffer, trail: Trail | undefined, quiet = false): "gone" | "filled" {
		try {
			rmdirSync(parent.at(name));
			this.removed += 1;
			return "gone";
		} catch (error) {
			const code = systemCode(error);
			if (code === "ENOENT") return "gone";
			if (quiet || code === "ENOTEMPTY" || code === "EEXIST") return "filled";
			if (code === "ENOTDIR") return this.#unlink(parent, name, trail) ? "gone" : "filled";
			this.#fail(trail, error);
			return "filled";
		}
	}

	/** Moves a deep directory to the top of the tree, where the next pass finds it. */
	#moveUp(parent: Directory, name: Buffer, trail: Trail): void {
		if (!this.#top) return;
		try {
			renameSync(parent.at(name), this.#top.at(`.deep-${randomBytes(12).toString("hex")}`));
			this.#moved += 1;
		} catch (error) {
			if (systemCode(error) !== "ENOENT") this.#fail(trail, error);
		}
	}

	#isElsewhere(child: Directory): boolean {
		return child.stat().dev !== this.#device || (this.#mountId !== undefined && mountIdOf(child) !== this.#mountId);
	}

	#fail(trail: Trail | undefined, error: unknown): void {
		const code = systemCode(error);
		if (code === "EACCES" || code === "EPERM") this.#denied = true;
		this.#note(trail, code === "EBUSY" ? "it is a mount point" : (code ?? messageOf(error)), error);
	}

	#note(trail: Trail | undefined, reason: string, cause?: unknown): void {
		const names: string[] = [];
		for (let step = trail; step; step = step.above) names.unshift(displayName(step.name));
		this.#left.push({ path: names.join("/"), reason, cause });
	}
}

function isLarge(parent: Directory, name: Buffer): boolean {
	const stat = lstatSync(parent.at(name), { throwIfNoEntry: false });
	return stat?.isFile() === true && stat.blocks * 512 > LARGE_FILE_BYTES;
}

function isDirectory(parent: Directory, name: Buffer): boolean {
	return lstatSync(parent.at(name), { throwIfNoEntry: false })?.isDirectory() === true;
}

/** Whether this system has a mount point somewhere below a directory; only then does every step compare mounts. */
function hasMountsBelow(directory: Directory): boolean {
	if (directory.byPath) return false;
	try {
		const path = realPathOf(directory);
		const mounts = readFileSync("/proc/self/mountinfo");
		return mounts.includes(` ${path}/`, 0, "latin1");
	} catch {
		return true;
	}
}

/** The directory's path as mountinfo writes it: bytes as latin1, with blank, tab, newline and backslash in octal. */
function realPathOf(directory: Directory): string {
	const path = readlinkSync(directory.base, { encoding: "latin1" });
	return path.replace(/[ \t\n\\]/g, (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, "0")}`);
}

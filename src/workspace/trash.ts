/** The trash of a root: where the directories of a sandbox go in one step, to be deleted at leisure by whoever comes by. */
import { randomBytes } from "node:crypto";
import { mkdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { throwIfAborted } from "../primitives/abort.js";
import { SandboxError, systemCode } from "../primitives/errors.js";
import type { ProgressSink } from "../primitives/progress.js";
import { type Directory, findStat, openChild, openDirectory, readNames } from "./fd-walk.js";
import { type Purge, removeTree } from "./remove-tree.js";

export interface DiscardOptions {
	/** Deletes with rights the caller lacks. Left out, entries of other users in directories of theirs are an error. */
	readonly purge?: Purge;
	readonly onProgress?: ProgressSink;
	readonly signal?: AbortSignal;
}

/** What an id has; the workspace goes last, so that what is left of a killed call is still found by it. */
const AREAS = ["accounts", "homes", "workspaces"] as const;
/** Where something waits that could not be moved to another directory: it is read-only, or belongs to somebody else. */
const ASIDE = /^\.trash-([0-9a-z]+)\.[0-9a-f]+$/;
const IN_TRASH = /^([0-9a-z]+)\.[0-9a-f]+$/;
const MAX_ATTEMPTS = 20;

export class Trash {
	readonly #rootPath: string;

	constructor(rootPath: string) {
		this.#rootPath = rootPath;
	}

	/** Moves all directories of an id to the trash and deletes them, and what the trash has of it already. */
	async discard(id: string, options: DiscardOptions): Promise<boolean> {
		throwIfAborted(options.signal);
		let moved = false;
		for (const area of AREAS) moved = this.#moveToTrash(area, id) || moved;
		const count = await this.#delete(
			this.#contents((owner) => owner === id),
			options,
		);
		return moved || count > 0;
	}

	/** Deletes all that is in the trash. */
	async empty(options: DiscardOptions): Promise<number> {
		throwIfAborted(options.signal);
		return this.#delete(
			this.#contents(() => true),
			options,
		);
	}

	async #delete(paths: readonly string[], options: DiscardOptions): Promise<number> {
		let deleted = 0;
		let entries = 0;
		let failure: { readonly error: unknown } | undefined;
		for (const path of paths) {
			throwIfAborted(options.signal);
			const before = entries;
			try {
				await removeTree(path, {
					purge: options.purge,
					signal: options.signal,
					onRemoved: (count) => {
						options.onProgress?.({
							stage: "remove",
							message: `deleted ${before + count} files and directories`,
							current: before + count,
						});
					},
				}).then((count) => {
					entries += count;
				});
				deleted += 1;
			} catch (error) {
				throwIfAborted(options.signal);
				failure ??= { error };
			}
		}
		if (failure) throw failure.error;
		return deleted;
	}

	/** The paths of everything in the trash that belongs to ids that are asked for. */
	#contents(wanted: (id: string) => boolean): string[] {
		const paths: string[] = [];
		for (const area of ["trash", ...AREAS]) {
			const pattern = area === "trash" ? IN_TRASH : ASIDE;
			const directory = this.#openArea(area);
			if (!directory) continue;
			try {
				for (const batch of readNames(directory)) {
					for (const entry of batch) {
						const name = entry.name.toString("latin1");
						const id = pattern.exec(name)?.[1];
						if (id !== undefined && wanted(id)) paths.push(join(this.#rootPath, area, name));
					}
				}
			} finally {
				directory.close();
			}
		}
		return paths;
	}

	/** Whether there was something to move. */
	#moveToTrash(area: string, id: string): boolean {
		const from = this.#openArea(area);
		if (!from) return false;
		try {
			for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
				const stat = findStat(from, id);
				if (!stat) return false;
				if (this.#move(from, id, area)) return true;
			}
			throw new Error("the trash is emptied as fast as it is filled");
		} catch (error) {
			if (error instanceof SandboxError) throw error;
			const path = join(this.#rootPath, area, id);
			const reason = systemCode(error) === "EBUSY" ? "it is a mount point" : (systemCode(error) ?? String(error));
			throw new SandboxError("workspace_unusable", `could not move ${path} to the trash: ${reason}`, {
				details: { path, reason },
				cause: error,
			});
		} finally {
			from.close();
		}
	}

	/** One try to move; false when the name or the trash has gone meanwhile. */
	#move(from: Directory, id: string, area: string): boolean {
		const unique = `${id}.${randomBytes(8).toString("hex")}`;
		const trash = this.#ensureTrash();
		try {
			try {
				mkdirSync(trash.at(unique), 0o700);
				const place = openChild(trash, unique);
				try {
					renameSync(from.at(id), place.at(area));
				} finally {
					place.close();
				}
			} catch (error) {
				if (systemCode(error) !== "EACCES" && systemCode(error) !== "EPERM") throw error;
				// Moving to another directory changes "..", for which one needs the right to write in what is moved.
				renameSync(from.at(id), from.at(`.trash-${unique}`));
			}
			return true;
		} catch (error) {
			if (systemCode(error) === "ENOENT") return false;
			throw error;
		} finally {
			trash.close();
		}
	}

	#ensureTrash(): Directory {
		const root = openDirectory(this.#rootPath);
		try {
			try {
				mkdirSync(root.at("trash"), 0o700);
			} catch (error) {
				if (systemCode(error) !== "EEXIST") throw error;
			}
			return openChild(root, "trash");
		} finally {
			root.close();
		}
	}

	#openArea(area: string): Directory | undefined {
		const root = openDirectory(this.#rootPath);
		try {
			return openChild(root, area);
		} catch (error) {
			if (systemCode(error) === "ENOENT") return undefined;
			throw error;
		} finally {
			root.close();
		}
	}
}

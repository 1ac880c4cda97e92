/**
 * The directories of the sandboxes in a root: workspaces, homes and account files under opaque ids that never move, and links that
 * tell people which is whose. What a sandbox may have put inside them is never followed.
 */

import { randomBytes } from "node:crypto";
import {
	closeSync,
	fchmodSync,
	fchownSync,
	fsyncSync,
	lstatSync,
	openSync,
	readlinkSync,
	renameSync,
	symlinkSync,
	unlinkSync,
	writeSync,
} from "node:fs";
import { join } from "node:path";
import { invalid } from "../primitives/checks.js";
import { adoptTree } from "./adopt-tree.js";
import { ensureDirectory, ignoring, type Owner, unusable, within } from "./areas.js";
import { type Directory, findStat, readNames } from "./fd-walk.js";
import type { Root } from "./root.js";
import { type DiscardOptions, Trash } from "./trash.js";

export type { Owner } from "./areas.js";
export type { DiscardOptions } from "./trash.js";

/** A link `names/<prefix>/<name>`: the second record of which workspace is whose. */
export interface NameLink {
	readonly prefix: string;
	readonly name: string;
	readonly id: string;
}

const ID = /^[0-9a-f]{24}$/;
const LINK_TARGET = /^\.\.\/\.\.\/workspaces\/([0-9a-f]{24})$/;
/** The first byte of names that are ours alone, such as those of temporary files. */
const DOT = 0x2e;

export class Workspaces {
	readonly #root: Root;
	readonly #trash: Trash;

	constructor(root: Root) {
		this.#root = root;
		this.#trash = new Trash(root.path);
	}

	/** A new opaque id: 24 hexadecimal digits. Makes nothing. */
	newId(): string {
		return randomBytes(12).toString("hex");
	}

	/** The absolute path of a workspace, there or not. */
	workspacePath(id: string): string {
		return join(this.#root.path, "workspaces", checkId(id));
	}

	/** The absolute path of a home directory, there or not. */
	homePath(id: string): string {
		return join(this.#root.path, "homes", checkId(id));
	}

	/**
	 * Makes workspace (mode 0755) and home (0700) where they are not there, and says whether the workspace was made now.
	 *
	 * When the caller is root both are given to `owner`, if there is one: the directories themselves, not what is in them. Other callers
	 * own what they make. Throws `workspace_unusable` when something else, such as a link, stands in their place.
	 */
	async ensure(id: string, owner: Owner | undefined): Promise<{ created: boolean }> {
		checkId(id);
		const created = ensureDirectory(this.#root.path, "workspaces", id, 0o755, owner);
		ensureDirectory(this.#root.path, "homes", id, 0o700, owner);
		return { created };
	}

	/**
	 * When the caller is root, gives all that is in workspace and home to `owner`: what root put there before the first container,
	 * or what a sandbox of another user left. Links are given away themselves and never followed. Does nothing for other callers.
	 */
	async adopt(id: string, owner: Owner): Promise<void> {
		if (process.geteuid?.() !== 0) return;
		await adoptTree(this.workspacePath(id), owner);
		await adoptTree(this.homePath(id), owner);
	}

	/**
	 * When the caller is root, makes `owner` the owner of workspace and home and of all that is in them, where another is: what
	 * a change of the sandbox's user needs. The directories themselves come last, so that a cut-off change is taken up again.
	 */
	async give(id: string, owner: Owner): Promise<void> {
		if (process.geteuid?.() !== 0) return;
		for (const area of ["workspaces", "homes"]) {
			const path = join(this.#root.path, area, checkId(id));
			const stat = within(this.#root.path, [area, id], (directory) => directory.stat());
			if (!stat || (stat.uid === owner.uid && stat.gid === owner.gid)) continue;
			await adoptTree(path, owner);
			within(this.#root.path, [area, id], (directory) => fchownSync(directory.fd, owner.uid, owner.gid));
		}
	}

	/** Whether there is a workspace under this id. */
	async exists(id: string): Promise<boolean> {
		// The root and its areas are nobody else's to change; only what is below a workspace is not trusted.
		return lstatSync(this.workspacePath(id), { throwIfNoEntry: false })?.isDirectory() === true;
	}

	/** The ids of all workspaces. */
	async ids(): Promise<string[]> {
		const ids: string[] = [];
		within(this.#root.path, ["workspaces"], (parent) => {
			for (const batch of readNames(parent)) {
				for (const { name, type } of batch) {
					if (type === "directory" && ID.test(name.toString("latin1"))) ids.push(name.toString("latin1"));
				}
			}
		});
		return ids.sort();
	}

	/**
	 * Writes the account files of a sandbox and gives their paths. Each `version` has files of its own: those of the container that
	 * is being replaced stay as they are, as it may be started again.
	 *
	 * Both are replaced, never changed: a container that has mounted the ones before keeps them. Mode 0644, whatever the umask.
	 */
	async writeAccounts(
		id: string,
		accounts: { readonly passwd: string; readonly group: string },
		version = "0",
	): Promise<{ passwdPath: string; groupPath: string }> {
		const directory = join(this.#root.path, "accounts", checkId(id));
		ensureDirectory(this.#root.path, "accounts", id, 0o755, undefined);
		const done = within(this.#root.path, ["accounts", id], (parent) => {
			replaceText(parent, `passwd.${version}`, accounts.passwd);
			replaceText(parent, `group.${version}`, accounts.group);
			return true;
		});
		if (!done) throw unusable(directory, "it is being deleted", undefined);
		return { passwdPath: join(directory, `passwd.${version}`), groupPath: join(directory, `group.${version}`) };
	}

	/** Deletes the account files of all other versions. */
	async pruneAccounts(id: string, version: string): Promise<void> {
		within(this.#root.path, ["accounts", checkId(id)], (parent) => {
			for (const batch of readNames(parent)) {
				for (const { name } of batch) {
					const own = [`passwd.${version}`, `group.${version}`].includes(name.toString("latin1"));
					if (!own) ignoring(["ENOENT"], () => unlinkSync(parent.at(name)));
				}
			}
		});
	}

	/** Makes or replaces the link `names/<prefix>/<name>` in one step. */
	async link(prefix: string, name: string, id: string): Promise<void> {
		checkId(id);
		checkPlain("prefix", prefix);
		checkPlain("name", name);
		ensureDirectory(this.#root.path, "names", prefix, 0o700, undefined);
		const path = join(this.#root.path, "names", prefix, name);
		const done = within(this.#root.path, ["names", prefix], (parent) => {
			const temporary = `.${randomBytes(8).toString("hex")}`;
			symlinkSync(`../../workspaces/${id}`, parent.at(temporary));
			try {
				renameSync(parent.at(temporary), parent.at(name));
			} catch (error) {
				unlinkSync(parent.at(temporary));
				throw unusable(path, "something that is no link stands there", error);
			}
			return true;
		});
		if (!done) throw unusable(path, "its directory is being deleted", undefined);
	}

	/** Takes the link away and says whether there was one; with `id`, only one that leads there. The workspace stays. */
	async unlink(prefix: string, name: string, id?: string): Promise<boolean> {
		checkPlain("prefix", prefix);
		checkPlain("name", name);
		const removed = within(this.#root.path, ["names", prefix], (parent) => {
			if (!findStat(parent, name)?.isSymbolicLink()) return false;
			if (id !== undefined && linkedId(parent, name) !== id) return false;
			return ignoring(["ENOENT"], () => unlinkSync(parent.at(name)));
		});
		return removed ?? false;
	}

	/** The workspace that the link of a name leads to, there or not; `undefined` where there is no such link. */
	async linked(prefix: string, name: string): Promise<string | undefined> {
		checkPlain("prefix", prefix);
		checkPlain("name", name);
		return within(this.#root.path, ["names", prefix], (parent) => linkedId(parent, name));
	}

	/** All links to workspaces, in the order of prefix and name. Whether the workspace is there is not looked at. */
	async links(): Promise<NameLink[]> {
		const links: NameLink[] = [];
		within(this.#root.path, ["names"], (names) => {
			for (const prefix of entryNames(names, "directory")) {
				within(this.#root.path, ["names", prefix], (parent) => {
					for (const name of entryNames(parent, "link")) {
						const id = linkedId(parent, name);
						if (id) links.push({ prefix, name, id });
					}
				});
			}
		});
		return links.sort((a, b) => compare(a.prefix, b.prefix) || compare(a.name, b.name));
	}

	/**
	 * Deletes workspace, home and account files, and says whether there was anything. Links to it are not looked for.
	 *
	 * First all three are renamed into the trash, so that from then on the id is free and a killed process leaves nothing that
	 * looks like a workspace; then the trash is deleted. What an earlier call for this id left in the trash is deleted too.
	 * The sandbox should not run: the files of a running one are deleted under it, safely, but it may keep making new ones.
	 * Throws `workspace_unusable` naming a path that could not be deleted, or the signal's reason; a later call goes on from there.
	 */
	async discard(id: string, options: DiscardOptions = {}): Promise<boolean> {
		return this.#trash.discard(checkId(id), options);
	}

	/**
	 * Deletes everything in the trash: what processes that were killed, or failed, left there. Gives the number of things deleted.
	 *
	 * Safe beside other processes that discard at the same time. One thing that cannot be deleted does not keep the others; at the
	 * end `workspace_unusable` names the first.
	 */
	async emptyTrash(options: DiscardOptions = {}): Promise<number> {
		return this.#trash.empty(options);
	}
}

function checkId(id: string): string {
	if (typeof id !== "string" || !ID.test(id)) throw invalid("workspaceId", "24 hexadecimal digits", id);
	return id;
}

function checkPlain(field: string, name: string): void {
	const bytes = Buffer.from(typeof name === "string" ? name : "");
	// What does not survive the way to bytes and back would be another name when it is read again.
	const faithful = bytes.toString() === name;
	if (!faithful || bytes.length === 0 || bytes.length > 255 || bytes[0] === DOT || /[/\0]/.test(name)) {
		throw invalid(field, "1 to 255 bytes without a slash or NUL, not beginning with a dot", name);
	}
}

function replaceText(parent: Directory, name: string, text: string): void {
	const temporary = `.${name}.${randomBytes(8).toString("hex")}`;
	const fd = openSync(parent.at(temporary), "wx", 0o644);
	try {
		try {
			const bytes = Buffer.from(text);
			for (let done = 0; done < bytes.length; ) done += writeSync(fd, bytes, done);
			fchmodSync(fd, 0o644);
			fsyncSync(fd);
		} finally {
			closeSync(fd);
		}
		renameSync(parent.at(temporary), parent.at(name));
	} catch (error) {
		ignoring(["ENOENT"], () => unlinkSync(parent.at(temporary)));
		throw error;
	}
}

function entryNames(directory: Directory, type: "directory" | "link"): string[] {
	const names: string[] = [];
	for (const batch of readNames(directory)) {
		for (const entry of batch) {
			if (entry.type === type && entry.name[0] !== DOT) names.push(entry.name.toString());
		}
	}
	return names;
}

function linkedId(parent: Directory, name: string): string | undefined {
	return LINK_TARGET.exec(readLink(parent, name) ?? "")?.[1];
}

function readLink(parent: Directory, name: string): string | undefined {
	let target: string | undefined;
	ignoring(["ENOENT", "EINVAL"], () => {
		target = readlinkSync(parent.at(name));
	});
	return target;
}

function compare(a: string, b: string): number {
	return a < b ? -1 : a > b ? 1 : 0;
}

/** The directories at the top of a root, reached without following a link anywhere below it. */
import { fchmodSync, fchownSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { SandboxError, systemCode } from "../primitives/errors.js";
import { type Directory, openChild, openChildUnlocked, openDirectory } from "./fd-walk.js";

/** Whom the directories of a sandbox are for. */
export interface Owner {
	readonly uid: number;
	readonly gid: number;
}

const MAX_ATTEMPTS = 10;

/** Makes `<area>/<name>` where it is not there; says whether it was made now. */
export function ensureDirectory(
	root: string,
	area: string,
	name: string,
	mode: number,
	owner: Owner | undefined,
): boolean {
	let created = false;
	for (let attempt = 1; ; attempt++) {
		try {
			const top = openDirectory(root);
			try {
				ignoring(["EEXIST"], () => mkdirSync(top.at(area), 0o700));
				const parent = openChild(top, area);
				try {
					created = ignoring(["EEXIST"], () => mkdirSync(parent.at(name), mode)) || created;
					const child = openChildUnlocked(parent, name);
					try {
						if (created) fchmodSync(child.fd, mode);
						if (owner) giveTo(child, owner);
					} finally {
						child.close();
					}
				} finally {
					parent.close();
				}
			} finally {
				top.close();
			}
			return created;
		} catch (error) {
			// Somebody discards the same id at this moment; it comes to an end.
			if (systemCode(error) === "ENOENT" && attempt < MAX_ATTEMPTS) continue;
			throw asUnusable(join(root, area, name), error);
		}
	}
}

/** Runs `work` with the directory at the end of `names`, no link followed; `undefined` when it is not there. */
export function within<T>(root: string, names: readonly string[], work: (directory: Directory) => T): T | undefined {
	const open: Directory[] = [];
	try {
		let current = openDirectory(root);
		open.push(current);
		for (const name of names) {
			current = openChild(current, name);
			open.push(current);
		}
		return work(current);
	} catch (error) {
		if (systemCode(error) === "ENOENT") return undefined;
		throw asUnusable(join(root, ...names), error);
	} finally {
		for (const directory of open) directory.close();
	}
}

function giveTo(directory: Directory, owner: Owner): void {
	if (process.geteuid?.() !== 0) return;
	const { uid, gid } = directory.stat();
	if (uid !== owner.uid || gid !== owner.gid) fchownSync(directory.fd, owner.uid, owner.gid);
}

/** Whether `work` succeeded; the given system errors only make it false. */
export function ignoring(codes: readonly string[], work: () => void): boolean {
	try {
		work();
		return true;
	} catch (error) {
		if (codes.includes(systemCode(error) ?? "")) return false;
		throw error;
	}
}

function asUnusable(path: string, error: unknown): unknown {
	const code = systemCode(error);
	if (error instanceof SandboxError || code === undefined) return error;
	const reason = code === "ENOTDIR" || code === "ELOOP" ? "it is a link or no directory" : code;
	return unusable(path, reason, error);
}

export function unusable(path: string, reason: string, cause: unknown): SandboxError<"workspace_unusable"> {
	return new SandboxError("workspace_unusable", `cannot use ${path}: ${reason}`, { details: { path, reason }, cause });
}

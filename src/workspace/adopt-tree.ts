/** Gives everything in a directory to one owner, without following a link or leaving the mount. For callers who are root. */
import { lchownSync } from "node:fs";
import { systemCode } from "../primitives/errors.js";
import { type Directory, findStat, mountIdOf, openChildUnlocked, openDirectory, readNames } from "./fd-walk.js";
import { TimeSlice } from "./time-slice.js";

/** Deeper than this nothing is given away: one descriptor is open for each level. */
const MAX_DEPTH = 500;

/** Entries that vanish meanwhile are passed over, and so is what lies on another mount. Gives how many entries changed their owner. */
export async function adoptTree(path: string, owner: { readonly uid: number; readonly gid: number }): Promise<number> {
	const top = openDirectory(path);
	try {
		return await adoptIn(top, owner, mountIdOf(top), 0, new TimeSlice());
	} finally {
		top.close();
	}
}

async function adoptIn(
	directory: Directory,
	owner: { readonly uid: number; readonly gid: number },
	mountId: string | undefined,
	depth: number,
	slice: TimeSlice,
): Promise<number> {
	let changed = 0;
	for (const batch of readNames(directory)) {
		for (const { name, type } of batch) {
			if (type === "directory" && depth < MAX_DEPTH)
				changed += await adoptChild(directory, name, owner, mountId, depth, slice);
			if (giveAway(directory, name, owner)) changed += 1;
		}
		if (slice.isOver()) await slice.next();
	}
	return changed;
}

async function adoptChild(
	parent: Directory,
	name: Buffer,
	owner: { readonly uid: number; readonly gid: number },
	mountId: string | undefined,
	depth: number,
	slice: TimeSlice,
): Promise<number> {
	let child: Directory;
	try {
		child = openChildUnlocked(parent, name);
	} catch (error) {
		if (["ENOENT", "ENOTDIR", "ELOOP"].includes(systemCode(error) ?? "")) return 0;
		throw error;
	}
	try {
		return mountIdOf(child) === mountId ? await adoptIn(child, owner, mountId, depth + 1, slice) : 0;
	} finally {
		child.close();
	}
}

function giveAway(parent: Directory, name: Buffer, owner: { readonly uid: number; readonly gid: number }): boolean {
	const stat = findStat(parent, name);
	if (!stat || (stat.uid === owner.uid && stat.gid === owner.gid)) return false;
	try {
		lchownSync(parent.at(name), owner.uid, owner.gid);
		return true;
	} catch (error) {
		if (systemCode(error) === "ENOENT") return false;
		throw error;
	}
}

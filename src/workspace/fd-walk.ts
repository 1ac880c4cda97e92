/**
 * Walking a directory that hostile code may be changing meanwhile: every step goes from an open directory to one name in it,
 * and never through a link.
 *
 * Node has no `openat`, but on Linux `/proc/self/fd/<fd>/<name>` names exactly the entry `<name>` of the directory that is open
 * as `<fd>`, wherever that directory has been moved. Names are bytes: they need not be UTF-8.
 *
 * Where there is no `/proc/self/fd` (macOS), a step goes by path. The last component is still never followed, but somebody who
 * can swap a directory further up while the walk runs can lead it astray: there the sandbox has to be stopped first.
 *
 * All functions throw Node's own system errors; a name that is not one plain component is refused with `invalid_input`.
 */
import {
	chmodSync,
	closeSync,
	constants,
	existsSync,
	fstatSync,
	lstatSync,
	opendirSync,
	openSync,
	readFileSync,
	type Stats,
} from "node:fs";
import { invalid } from "../primitives/checks.js";
import { systemCode } from "../primitives/errors.js";

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants;
/** Linux's flag for a descriptor that only marks a place: it needs no permission on the file itself. Node does not export it. */
const O_PATH = 0o10000000;
const SLASH = 0x2f;

let procIsThere: boolean | undefined;
function hasProc(): boolean {
	procIsThere ??= process.platform === "linux" && existsSync("/proc/self/fd");
	return procIsThere;
}

export type Name = Buffer | string;

export type EntryType = "file" | "directory" | "link" | "fifo" | "socket" | "device" | "unknown";

/** One entry of a directory, as the directory itself tells it. It may have changed since. */
export interface Entry {
	readonly name: Buffer;
	readonly type: EntryType;
}

/** An open directory. Close it. */
export class Directory {
	readonly fd: number;
	/** How this directory is reached: `/proc/self/fd/<fd>`, or its path where there is no such thing. */
	readonly base: Buffer;
	readonly byPath: boolean;
	#closed: boolean | undefined;

	constructor(fd: number, path: Buffer, byPath: boolean) {
		this.fd = fd;
		this.byPath = byPath;
		this.base = byPath ? path : Buffer.from(`/proc/self/fd/${fd}`);
	}

	/** The path by which `node:fs` reaches the entry `name` of this directory. Only for calls that do not follow a last link. */
	at(name: Name): Buffer {
		const bytes = plainName(name);
		const path = Buffer.allocUnsafe(this.base.length + 1 + bytes.length);
		this.base.copy(path);
		path[this.base.length] = SLASH;
		bytes.copy(path, this.base.length + 1);
		return path;
	}

	stat(): Stats {
		return fstatSync(this.fd);
	}

	close(): void {
		if (this.#closed) return;
		this.#closed = true;
		closeSync(this.fd);
	}
}

/** The bytes of one path component; refuses everything that could name more or something else than an entry. */
export function plainName(name: Name): Buffer {
	const bytes = typeof name === "string" ? Buffer.from(name) : name;
	const dots = bytes[0] === 0x2e && (bytes.length === 1 || (bytes.length === 2 && bytes[1] === 0x2e));
	if (bytes.length === 0 || bytes.length > 255 || dots || bytes.includes(SLASH) || bytes.includes(0)) {
		throw invalid("name", "one plain path component of 1 to 255 bytes", bytes.toString());
	}
	return bytes;
}

/** Opens a directory the caller trusts: links in `path` are followed. `byPath` walks as on systems without `/proc`. */
export function openDirectory(path: string, options: { readonly byPath?: boolean } = {}): Directory {
	const fd = openSync(path, O_RDONLY | O_DIRECTORY);
	return new Directory(fd, Buffer.from(path), options.byPath ?? !hasProc());
}

/** Opens a directory in a directory. A link is not followed: `ENOTDIR`, like anything else that is no directory. */
export function openChild(parent: Directory, name: Name): Directory {
	const path = parent.at(name);
	const fd = openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	return new Directory(fd, path, parent.byPath);
}

/**
 * Opens a directory in a directory, after giving its owner the right to read, write and search it where that is missing.
 * Whoever is neither owner nor root gets the directory as it is, or `EACCES`.
 */
export function openChildUnlocked(parent: Directory, name: Name): Directory {
	let child: Directory;
	try {
		child = openChild(parent, name);
	} catch (error) {
		if (systemCode(error) !== "EACCES") throw error;
		unlock(parent, name);
		return openChild(parent, name);
	}
	const { mode, uid } = child.stat();
	if ((mode & 0o700) !== 0o700 && (uid === process.geteuid?.() || process.geteuid?.() === 0)) {
		try {
			chmodSync(child.byPath ? child.base : `/proc/self/fd/${child.fd}`, (mode & 0o7777) | 0o700);
		} catch (error) {
			if (systemCode(error) !== "EPERM" && systemCode(error) !== "EROFS") {
				child.close();
				throw error;
			}
		}
	}
	return child;
}

/** Gives the owner of a directory that cannot even be opened all rights on it. The descriptor pins it between look and change. */
function unlock(parent: Directory, name: Name): void {
	const path = parent.at(name);
	if (parent.byPath) {
		if (lstatSync(path).isDirectory()) chmodSync(path, 0o700);
		return;
	}
	const fd = openSync(path, O_PATH | O_DIRECTORY | O_NOFOLLOW);
	try {
		chmodSync(`/proc/self/fd/${fd}`, 0o700);
	} finally {
		closeSync(fd);
	}
}

/** Opens the directory at the end of `names`, each a directory in the one before. */
export function openDescendant(top: Directory, names: readonly Name[]): Directory {
	let current = top;
	for (const name of names) {
		try {
			const next = openChild(current, name);
			if (current !== top) current.close();
			current = next;
		} catch (error) {
			if (current !== top) current.close();
			throw error;
		}
	}
	return current === top ? new Directory(openSync(top.base, O_RDONLY | O_DIRECTORY), top.base, top.byPath) : current;
}

/**
 * Opens a regular file in a directory and gives its descriptor; `undefined` for a directory, FIFO or device. Never follows a link
 * (`ELOOP`) and never waits for the other end of a FIFO. `flags` as for `open`; `mode` for a file that is made.
 */
export function openFile(parent: Directory, name: Name, flags: number = O_RDONLY, mode = 0o600): number | undefined {
	const fd = openSync(parent.at(name), flags | O_NOFOLLOW | O_NONBLOCK, mode);
	try {
		if (fstatSync(fd).isFile()) return fd;
	} catch (error) {
		closeSync(fd);
		throw error;
	}
	closeSync(fd);
	return undefined;
}

/** What an entry is, without following it; `undefined` when there is none. */
export function findStat(parent: Directory, name: Name): Stats | undefined {
	return lstatSync(parent.at(name), { throwIfNoEntry: false });
}

/** The entries of a directory in batches, as the file system gives them. Entries may be deleted between batches. */
export function* readNames(directory: Directory, batchSize = 512): Generator<Entry[], void, undefined> {
	// `Dir` takes a Buffer encoding that its types do not tell of.
	const options = { encoding: "buffer" as BufferEncoding, bufferSize: batchSize };
	const handle = opendirSync(directory.base, options);
	try {
		let batch: Entry[] = [];
		for (let entry = handle.readSync(); entry !== null; entry = handle.readSync()) {
			const type: EntryType = entry.isFile()
				? "file"
				: entry.isDirectory()
					? "directory"
					: entry.isSymbolicLink()
						? "link"
						: entry.isFIFO()
							? "fifo"
							: entry.isSocket()
								? "socket"
								: entry.isCharacterDevice() || entry.isBlockDevice()
									? "device"
									: "unknown";
			batch.push({ name: entry.name as unknown as Buffer, type });
			if (batch.length >= batchSize) {
				yield batch;
				batch = [];
			}
		}
		if (batch.length > 0) yield batch;
	} finally {
		handle.closeSync();
	}
}

/** Which mount an open directory lies on, where the system tells. Two bind mounts of one file system differ in it. */
export function mountIdOf(directory: Directory): string | undefined {
	if (directory.byPath) return undefined;
	return /^mnt_id:\s*(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${directory.fd}`, "latin1"))?.[1];
}

/** Bytes of a name as text for people: control characters escaped, what is not UTF-8 as U+FFFD. */
export function displayName(name: Buffer): string {
	return JSON.stringify(name.toString()).slice(1, -1).replaceAll('\\"', '"').replaceAll("\\\\", "\\");
}

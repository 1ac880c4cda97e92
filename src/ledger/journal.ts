/** The open ledger file: reads on from where it was, appends, and knows whether the path still names it. */
import {
	closeSync,
	constants,
	fdatasync,
	fstatSync,
	lstatSync,
	openSync,
	readSync,
	statSync,
	writeSync,
} from "node:fs";
import { messageOf, SandboxError, systemCode } from "../primitives/errors.js";
import { Replay, type ReplayOptions } from "./replay.js";

/** Which file a name stands for. */
export interface FileId {
	readonly dev: bigint;
	readonly ino: bigint;
}

const CHUNK = 4 * 1024 * 1024;

const registry = new FinalizationRegistry<number>((fd) => closeSync(fd));

export class Journal<Row> {
	readonly path: string;
	readonly id: FileId;
	replay: Replay<Row>;
	/** How many bytes of the file have been looked at; a line that is cut off at the end is looked at again when more follows. */
	examined = 0;
	readonly #fd: number;
	readonly #options: ReplayOptions<Row>;
	#uses = 0;
	#retired = false;

	private constructor(path: string, fd: number, options: ReplayOptions<Row>) {
		this.path = path;
		this.#fd = fd;
		this.#options = options;
		this.replay = new Replay(options);
		const { dev, ino } = fstatSync(fd, { bigint: true });
		this.id = { dev, ino };
		registry.register(this, fd, this);
	}

	/** The file of this path, read to its end, or `undefined` when there is none. */
	static open<Row>(path: string, options: ReplayOptions<Row>): Journal<Row> | undefined {
		try {
			const fd = openSync(path, constants.O_RDWR | constants.O_APPEND | constants.O_NOFOLLOW);
			const journal = new Journal(path, fd, options);
			journal.readOn();
			return journal;
		} catch (error) {
			if (systemCode(error) === "ENOENT") return undefined;
			throw unreadable(path, "read", error);
		}
	}

	/** Closed files are not touched any more: their number may be another file's by now. */
	get closed(): boolean {
		return this.#retired;
	}

	/** Reads what was added. `false` when the file has become shorter (what was known of it is no longer in it) or was closed. */
	readOn(): boolean {
		if (this.#retired) return false;
		try {
			const size = fstatSync(this.#fd).size;
			if (size < this.examined) return false;
			if (size > this.examined || size === 0) this.#readTo(size);
			return true;
		} catch (error) {
			throw unreadable(this.path, "read", error);
		}
	}

	/** Reads the whole file again, as if it were seen for the first time. */
	reread(): void {
		this.replay = new Replay(this.#options);
		this.examined = 0;
		this.readOn();
	}

	/** The bytes from an offset up to what has been examined. */
	slice(from: number): Buffer {
		return this.#read(from, this.examined);
	}

	/** Appends in one write. Gives the failure instead of throwing it: a part may have been written, and count. */
	append(text: string): SandboxError | undefined {
		const bytes = Buffer.from(text);
		try {
			const written = writeSync(this.#fd, bytes);
			if (written === bytes.length) return undefined;
			return unreadable(this.path, "write", new Error(`only ${written} of ${bytes.length} bytes could be written`));
		} catch (error) {
			return unreadable(this.path, "write", error);
		}
	}

	/** Makes everything appended so far durable. */
	sync(): Promise<void> {
		this.#uses += 1;
		return new Promise((resolve, reject) => {
			fdatasync(this.#fd, (error) => {
				this.#uses -= 1;
				if (this.#retired) this.close();
				if (error) reject(unreadable(this.path, "write", error));
				else resolve();
			});
		});
	}

	/** Whether the path names this file now; `undefined` when it names nothing. */
	isCurrent(): boolean | undefined {
		const named = identify(this.path);
		return named && sameFile(named, this.id);
	}

	/** Whether the path names this file and nothing was added to it. */
	isUpToDate(): boolean {
		const named = identify(this.path);
		return named !== undefined && sameFile(named, this.id) && named.size === BigInt(this.examined) && this.examined > 0;
	}

	/** Closes the file once nobody uses it any more. */
	close(): void {
		this.#retired = true;
		if (this.#uses > 0) return;
		if (registry.unregister(this)) closeSync(this.#fd);
	}

	#readTo(size: number): void {
		let length = CHUNK;
		while (this.replay.consumed < size) {
			const from = this.replay.consumed;
			const to = Math.min(size, from + length);
			this.replay.feed(this.#read(from, to), to === size);
			if (to === size) break;
			if (this.replay.consumed === from) length *= 2;
		}
		this.replay.endOfFile();
		this.examined = size;
	}

	#read(from: number, to: number): Buffer {
		const bytes = Buffer.allocUnsafe(to - from);
		let filled = 0;
		while (filled < bytes.length) {
			const read = readSync(this.#fd, bytes, filled, bytes.length - filled, from + filled);
			if (read === 0) break;
			filled += read;
		}
		return bytes.subarray(0, filled);
	}
}

/** Which file a path names, without following a link, and how long it is; `undefined` when there is none. */
export function identify(path: string): (FileId & { readonly size: bigint }) | undefined {
	try {
		return lstatSync(path, { bigint: true, throwIfNoEntry: false });
	} catch (error) {
		throw unreadable(path, "read", error);
	}
}

/** Which directory a path names; one that was removed and made again at the same path is another. */
export function identifyDirectory(path: string): string | undefined {
	const stat = statSync(path, { bigint: true, throwIfNoEntry: false });
	return stat && `${stat.dev}:${stat.ino}:${stat.birthtimeNs}`;
}

export function sameFile(a: FileId, b: FileId): boolean {
	return a.ino === b.ino && a.dev === b.dev;
}

/** The error for a ledger that the system will not let us use. It is never taken for an empty one. */
export function unreadable(path: string, verb: "read" | "write", cause: unknown): SandboxError<"ledger_unreadable"> {
	if (cause instanceof SandboxError) return cause as SandboxError<"ledger_unreadable">;
	const code = systemCode(cause);
	const hint =
		code === "ENOSPC" || code === "EDQUOT"
			? "free some disk space, then repeat the call"
			: code === "EACCES" || code === "EPERM" || code === "EROFS"
				? "run as the user who owns the root, or choose another root"
				: undefined;
	return new SandboxError(
		"ledger_unreadable",
		`ledger ${path}: it could not be ${verb === "read" ? "read" : "written"}: ${messageOf(cause)}`,
		{
			details: { path },
			...(hint === undefined ? {} : { hint }),
			cause,
		},
	);
}

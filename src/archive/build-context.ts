/** What a build is given of a directory: its entries in a fixed order, without what `.dockerignore` leaves out. */
import { lstat, readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import { throwIfAborted } from "../primitives/abort.js";
import { messageOf, SandboxError, systemCode } from "../primitives/errors.js";
import { type IgnoreRules, parseIgnoreRules } from "./ignore-rules.js";

export interface ContextEntry {
	/** Relative to the context, with slashes. */
	readonly path: string;
	readonly kind: "file" | "directory" | "symlink";
	/** Permission bits. */
	readonly mode: number;
	/** 0 for what is not a file. */
	readonly sizeBytes: number;
	readonly modifiedAtMs: number;
	/** Where a symbolic link leads, empty otherwise. */
	readonly linkTarget: string;
	/** Changes whenever the entry does, as far as its inode tells. */
	readonly stamp: string;
	/** When the inode last changed. */
	readonly changedAtMs: number;
}

export interface ContextOptions {
	/** The Dockerfile's name in the context; it is kept whatever `.dockerignore` says. Default `Dockerfile`. */
	readonly dockerfile?: string | undefined;
	readonly signal?: AbortSignal | undefined;
}

/**
 * All entries of a build context, depth first, the names of each directory sorted. Directories that are left out as a
 * whole are not entered; sockets, pipes and devices are passed over. The Dockerfile and `.dockerignore` are always there, as the
 * engine reads them from the context.
 *
 * Throws `invalid_input` naming the path that is missing or cannot be read.
 */
export async function listContext(directory: string, options: ContextOptions = {}): Promise<ContextEntry[]> {
	const rules = parseIgnoreRules(await readIgnoreFile(directory));
	const kept = new Set([options.dockerfile ?? "Dockerfile", ".dockerignore"]);
	return listDirectory(directory, "", { rules, kept, signal: options.signal });
}

interface Walk {
	readonly rules: IgnoreRules;
	readonly kept: ReadonlySet<string>;
	readonly signal: AbortSignal | undefined;
}

async function listDirectory(directory: string, relative: string, walk: Walk): Promise<ContextEntry[]> {
	throwIfAborted(walk.signal);
	const names = await readdir(directory).catch((error: unknown) => refuse(directory, error));
	const entries: ContextEntry[] = [];
	for (const name of names.sort()) {
		const path = relative === "" ? name : `${relative}/${name}`;
		const ignored = !walk.kept.has(path) && walk.rules.ignores(path);
		if (ignored && !walk.rules.mayReadmitBeneath(path) && !isAboveKept(path, walk.kept)) continue;
		const entry = await describe(join(directory, name), path);
		if (!entry) continue;
		const beneath = entry.kind === "directory" ? await listDirectory(join(directory, name), path, walk) : [];
		if (ignored && beneath.length === 0) continue;
		entries.push(entry, ...beneath);
	}
	return entries;
}

function isAboveKept(path: string, kept: ReadonlySet<string>): boolean {
	for (const name of kept) if (name.startsWith(`${path}/`)) return true;
	return false;
}

async function describe(absolute: string, path: string): Promise<ContextEntry | undefined> {
	const stat = await lstat(absolute, { bigint: true }).catch((error: unknown) => refuse(absolute, error));
	const kind = stat.isFile()
		? "file"
		: stat.isDirectory()
			? "directory"
			: stat.isSymbolicLink()
				? "symlink"
				: undefined;
	if (!kind) return undefined;
	return {
		path,
		kind,
		mode: Number(stat.mode & 0o7777n),
		sizeBytes: kind === "file" ? Number(stat.size) : 0,
		modifiedAtMs: Number(stat.mtimeMs),
		linkTarget: kind === "symlink" ? await readlink(absolute).catch((error: unknown) => refuse(absolute, error)) : "",
		stamp: [stat.dev, stat.ino, stat.mode, stat.size, stat.mtimeNs, stat.ctimeNs].join(":"),
		changedAtMs: Number(stat.ctimeMs),
	};
}

async function readIgnoreFile(directory: string): Promise<string> {
	const path = join(directory, ".dockerignore");
	return readFile(path, "utf8").catch((error: unknown) => (systemCode(error) === "ENOENT" ? "" : refuse(path, error)));
}

/** Throws the refusal of a path of a build context that could not be read. */
export function refuse(path: string, error: unknown): never {
	throw new SandboxError("invalid_input", `build context: cannot read ${path}: ${messageOf(error)}`, {
		details: { field: "context", expected: "a directory whose files can be read", received: path },
		cause: error,
	});
}

/** A directory as the tar stream that an engine builds from. */
import { once } from "node:events";
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import type { Pack } from "tar-stream";
import { SandboxError } from "../primitives/errors.js";
import { type ContextEntry, type ContextOptions, listContext, refuse } from "./build-context.js";

const CHUNK_BYTES = 64 * 1024;

/**
 * A build context as a tar stream: what {@link listContext} gives, in its order, owned by root as the docker command sends it.
 * Files are read as the stream is, one at a time. Destroying the stream stops the reading.
 *
 * Throws `invalid_input` naming the path that is missing or cannot be read; a file that turns out so later, or that
 * grows shorter meanwhile, ends the stream with the same error.
 */
export async function packDirectory(directory: string, options: ContextOptions = {}): Promise<Readable> {
	const [{ pack: createPack }, entries] = await Promise.all([import("tar-stream"), listContext(directory, options)]);
	return Readable.from(chunks(createPack(), directory, entries), { objectMode: false, signal: options.signal });
}

async function* chunks(pack: Pack, directory: string, entries: readonly ContextEntry[]): AsyncGenerator<Buffer> {
	const written = writeEntries(pack, directory, entries).catch((error: unknown) => {
		pack.destroy(error instanceof Error ? error : new Error(String(error)));
	});
	try {
		for await (const chunk of pack) yield Buffer.from(chunk as Uint8Array);
	} finally {
		pack.destroy(null);
		await written;
	}
}

async function writeEntries(pack: Pack, directory: string, entries: readonly ContextEntry[]): Promise<void> {
	for (const entry of entries) {
		if (pack.destroyed) return;
		const header = { mode: entry.mode, mtime: new Date(entry.modifiedAtMs), uid: 0, gid: 0 };
		if (entry.kind === "directory") pack.entry({ ...header, name: `${entry.path}/`, type: "directory" });
		else if (entry.kind === "symlink")
			pack.entry({ ...header, name: entry.path, type: "symlink", linkname: entry.linkTarget });
		else await writeFile(pack, join(directory, entry.path), { ...header, name: entry.path, type: "file" });
	}
	pack.finalize();
}

async function writeFile(pack: Pack, path: string, header: Parameters<Pack["entry"]>[0]): Promise<void> {
	// Neither a link nor a pipe that has taken the file's place since it was listed is followed or waited for.
	const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
	const file = await open(path, flags).catch((error: unknown) => refuse(path, error));
	try {
		const stat = await file.stat();
		if (!stat.isFile()) refuse(path, new Error("it is no longer a file"));
		await copyFile(pack, path, file, { ...header, size: stat.size });
	} finally {
		await file.close();
	}
}

async function copyFile(
	pack: Pack,
	path: string,
	file: FileHandle,
	header: Parameters<Pack["entry"]>[0] & { size: number },
): Promise<void> {
	const sink = pack.entry(header);
	sink.on("error", () => {}); // The pack is destroyed with it and tells the reader.
	for (let at = 0; at < header.size; ) {
		const buffer = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, header.size - at));
		const { bytesRead } = await file.read(buffer, 0, buffer.length, at).catch((error: unknown) => refuse(path, error));
		if (bytesRead === 0) throw shrank(path);
		at += bytesRead;
		if (!sink.write(buffer.subarray(0, bytesRead)) && !(await drained(pack, sink))) return;
	}
	sink.end(null);
}

/** Resolves when the sink takes more, to `false` when nobody reads any longer. */
async function drained(pack: Pack, sink: ReturnType<Pack["entry"]>): Promise<boolean> {
	if (pack.destroyed) return false;
	const waiting = new AbortController();
	const { signal } = waiting;
	const emitters = [sink, pack] as unknown as [NodeJS.EventEmitter, NodeJS.EventEmitter];
	try {
		await Promise.race([once(emitters[0], "drain", { signal }), once(emitters[1], "close", { signal })]);
	} catch {
		return false;
	} finally {
		waiting.abort();
	}
	return !pack.destroyed;
}

function shrank(path: string): SandboxError {
	return new SandboxError("invalid_input", `build context: ${path} grew shorter while it was read`, {
		details: { field: "context", expected: "files that keep still", received: path },
	});
}

/** A directory as the tar stream that an engine builds from. */
import { join } from "node:path";
import { pipeline, Readable, Transform } from "node:stream";
import { systemCode } from "../primitives/errors.js";
import { type ContextOptions, listContext, refuse } from "./build-context.js";

/** What tar-fs takes and its types do not tell of. */
interface PackOptions {
	readonly entries: readonly string[];
	readonly ignore: (path: string) => boolean;
	readonly umask: number;
	readonly map: (header: Header) => Header;
	readonly mapStream: (file: Readable, header: Header) => Readable;
}

interface Header {
	readonly name: string;
	readonly size: number;
}

/**
 * A build context as a tar stream: what {@link listContext} gives, in its order, owned by root as the docker command sends it.
 * Files are read as the stream is, one at a time. Destroying the stream stops the reading.
 *
 * Throws `invalid_input` naming the path that is missing or cannot be read; a file that turns out so later, or that
 * grows shorter meanwhile, ends the stream with the same error.
 */
export async function packDirectory(directory: string, options: ContextOptions = {}): Promise<Readable> {
	const [{ default: tar }, entries] = await Promise.all([import("tar-fs"), listContext(directory, options)]);
	const packing: PackOptions = {
		// Every entry is named and none is looked for: tar-fs ends the archive early when one it found by itself is gone again.
		entries: entries.map((entry) => entry.path),
		ignore: () => true,
		umask: 0,
		map: (header) => ({ ...header, uid: 0, gid: 0 }),
		mapStream: (file, header) => whole(file, join(directory, header.name), header.size),
	};
	const pack = tar.pack(directory, packing as never) as unknown as Readable;
	return Readable.from(chunks(pack, directory), { objectMode: false, signal: options.signal });
}

async function* chunks(pack: Readable, directory: string): AsyncGenerator<Buffer> {
	try {
		for await (const chunk of pack) yield Buffer.from(chunk as Uint8Array);
	} catch (error) {
		if (systemCode(error) === "ABORT_ERR") throw error;
		const path = (error as { path?: unknown }).path;
		refuse(typeof path === "string" ? path : directory, error);
	} finally {
		pack.destroy();
	}
}

/** The file's bytes, or an error when it has fewer than its header says: the archive would be broken. */
function whole(file: Readable, path: string, size: number): Readable {
	let seen = 0;
	const counted = new Transform({
		transform(chunk: Buffer, _encoding, done) {
			seen += chunk.length;
			done(null, chunk);
		},
		flush(done) {
			done(seen === size ? null : Object.assign(new Error("it grew shorter while it was read"), { path }));
		},
	});
	return pipeline(file, counted, () => {});
}

/** Reads the one file out of a small archive that is held in memory. */

/** The content of the archive's first entry; `undefined` where that is no regular file. */
export async function readSingleFile(archive: Buffer): Promise<Buffer | undefined> {
	const { extract } = await import("tar-stream");
	const entries = extract();
	entries.end(archive);
	for await (const entry of entries) {
		if (entry.header.type !== "file") return undefined;
		const chunks: Buffer[] = [];
		for await (const chunk of entry) chunks.push(chunk as Buffer);
		return Buffer.concat(chunks);
	}
	return undefined;
}

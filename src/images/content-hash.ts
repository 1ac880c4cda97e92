/** What a recipe is made of, as one hash: the same folder and build arguments give the same, anything else another. */
import { createHash, type Hash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type ContextEntry, listContext, refuse } from "../archive/build-context.js";
import { canonicalJson } from "../primitives/canonical-json.js";
import type { Recipe } from "./catalog.js";

/** Goes into every hash: a change of what is hashed, or of how we build, is another identity. */
const FORM = "sandboxes-image-1";

/** A stamp tells an edit apart from the last one only if the clock has moved on since; file systems count in up to 2 s. */
const SETTLED_MS = 2000;

const SMALL_BYTES = 1024 * 1024;

/** Hashes recipes, and reads a folder's files again only when its stats have changed. */
export class ContentHashes {
	readonly #known = new Map<string, { readonly stamps: string; readonly hash: string }>();

	/** 64 hexadecimal digits. Throws `invalid_input` naming a file that cannot be read. */
	async hash(recipe: Recipe, signal?: AbortSignal): Promise<string> {
		const startedAtMs = Date.now();
		const entries = await listContext(recipe.context, { signal });
		const key = canonicalJson({ context: recipe.context, buildArgs: recipe.buildArgs });
		const stamps = entries.map((entry) => `${entry.path}\0${entry.stamp}`).join("\0");
		const known = this.#known.get(key);
		if (known?.stamps === stamps) return known.hash;
		const hash = await hashEntries(recipe, entries, signal);
		const settled = entries.every((entry) => entry.changedAtMs < startedAtMs - SETTLED_MS);
		if (settled) this.#known.set(key, { stamps, hash });
		return hash;
	}
}

async function hashEntries(
	recipe: Recipe,
	entries: readonly ContextEntry[],
	signal: AbortSignal | undefined,
): Promise<string> {
	const hash = createHash("sha256");
	hash.update(`${canonicalJson({ form: FORM, buildArgs: recipe.buildArgs })}\n`);
	for (const { path, kind, mode, sizeBytes, linkTarget } of entries) {
		hash.update(`${canonicalJson({ path, kind, mode, sizeBytes, linkTarget })}\n`);
		if (kind === "file") await hashFile(hash, join(recipe.context, path), sizeBytes, signal);
	}
	return hash.digest("hex");
}

async function hashFile(hash: Hash, path: string, sizeBytes: number, signal: AbortSignal | undefined): Promise<void> {
	try {
		if (sizeBytes <= SMALL_BYTES) hash.update(await readFile(path, { signal }));
		else for await (const chunk of createReadStream(path, { signal })) hash.update(chunk as Buffer);
	} catch (error) {
		if (signal?.aborted) throw signal.reason;
		refuse(path, error);
	}
}

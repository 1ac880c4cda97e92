import {
	chmodSync,
	mkdirSync,
	mkdtempSync,
	readdirSync,
	renameSync,
	rmSync,
	symlinkSync,
	utimesSync,
	writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ContentHashes } from "../../../src/images/content-hash.js";

let context: string;
let hashes: ContentHashes;

beforeEach(() => {
	context = mkdtempSync(join(tmpdir(), "content-hash-"));
	hashes = new ContentHashes();
	fill(context);
});
afterEach(() => {
	rmSync(context, { recursive: true, force: true });
});

function fill(directory: string): void {
	mkdirSync(join(directory, "files"));
	writeFileSync(join(directory, "Dockerfile"), "FROM a\n");
	writeFileSync(join(directory, ".dockerignore"), "README.md\n");
	writeFileSync(join(directory, "files/x"), "one");
	symlinkSync("x", join(directory, "files/link"));
}

async function hash(buildArgs: Record<string, string> = {}, directory = context): Promise<string> {
	return hashes.hash({ runtime: "r", context: directory, buildArgs });
}

describe("the identity of what an image is built from", () => {
	test("the same folder elsewhere, with other times, is the same", async () => {
		const other = mkdtempSync(join(tmpdir(), "content-hash-"));
		try {
			for (const name of readdirSync(context).reverse()) rmSync(join(other, name), { force: true });
			fill(other);
			utimesSync(join(other, "files/x"), 1, 1);
			expect(await hash({}, other)).toBe(await hash());
		} finally {
			rmSync(other, { recursive: true });
		}
	});

	test.each<[string, () => void]>([
		["a byte", () => writeFileSync(join(context, "files/x"), "onf")],
		["a mode", () => chmodSync(join(context, "files/x"), 0o755)],
		["a name", () => renameSync(join(context, "files/x"), join(context, "files/y"))],
		["a new file", () => writeFileSync(join(context, "files/new"), "")],
		["a new directory", () => mkdirSync(join(context, "empty"))],
		["a file gone", () => rmSync(join(context, "files/x"))],
		[
			"where a link leads",
			() => {
				rmSync(join(context, "files/link"));
				symlinkSync("y", join(context, "files/link"));
			},
		],
		[
			"a file that becomes a link to the same",
			() => {
				renameSync(join(context, "files/x"), join(context, "files/y"));
				symlinkSync("y", join(context, "files/x"));
			},
		],
	])("%s makes another", async (_, change) => {
		const before = await hash();
		change();
		expect(await hash()).not.toBe(before);
	});

	test("an edit of the same length right after the last one makes another", async () => {
		const seen = new Set<string>();
		for (let edit = 0; edit < 10; edit++) {
			writeFileSync(join(context, "files/x"), String(edit));
			seen.add(await hash());
		}
		expect(seen.size).toBe(10);
	});

	test("build arguments count, their order does not", async () => {
		const known = [await hash(), await hash({ A: "1" }), await hash({ A: "2" }), await hash({ A: "1", B: "2" })];
		expect(new Set(known).size).toBe(4);
		expect(await hash({ B: "2", A: "1" })).toBe(known[3]);
	});

	test("what .dockerignore leaves out does not count", async () => {
		const before = await hash();
		writeFileSync(join(context, "README.md"), "words");
		expect(await hash()).toBe(before);
	});

	test("a large file counts to its last byte", async () => {
		const large = Buffer.alloc(3_000_000);
		writeFileSync(join(context, "large"), large);
		const before = await hash();
		large[large.length - 1] = 1;
		writeFileSync(join(context, "large"), large);
		expect(await hash()).not.toBe(before);
	});
});

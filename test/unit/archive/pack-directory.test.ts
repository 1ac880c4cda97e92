import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { extract } from "tar-stream";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { listContext } from "../../../src/archive/build-context.js";
import { packDirectory } from "../../../src/archive/pack-directory.js";

let directory: string;

beforeEach(() => {
	directory = mkdtempSync(join(tmpdir(), "pack-directory-"));
});
afterEach(() => {
	rmSync(directory, { recursive: true, force: true });
});

function put(files: Readonly<Record<string, string>>): void {
	for (const [path, text] of Object.entries(files)) {
		mkdirSync(dirname(join(directory, path)), { recursive: true });
		writeFileSync(join(directory, path), text);
	}
}

async function unpacked(): Promise<{ name: string; type: string; mode: number; text: string; link: string }[]> {
	const entries: { name: string; type: string; mode: number; text: string; link: string }[] = [];
	const reader = (await packDirectory(directory)).pipe(extract() as unknown as NodeJS.WritableStream);
	for await (const entry of reader as unknown as ReturnType<typeof extract>) {
		const chunks: Uint8Array[] = [];
		for await (const chunk of entry) chunks.push(chunk as Uint8Array);
		const { name, type, mode, linkname } = entry.header;
		entries.push({ name, type, mode, text: Buffer.concat(chunks).toString(), link: linkname ?? "" });
	}
	return entries;
}

async function paths(): Promise<string[]> {
	return (await listContext(directory)).map((entry) => entry.path);
}

describe("packing a build context", () => {
	test("a context comes out as it lies there, in the order of its names", async () => {
		put({ "b.txt": "bee", "a/z": "zed", "a/y": "", Dockerfile: "FROM x" });
		chmodSync(join(directory, "b.txt"), 0o750);
		symlinkSync("../b.txt", join(directory, "a/link"));
		expect(await unpacked()).toEqual([
			{ name: "Dockerfile", type: "file", mode: 0o644, text: "FROM x", link: "" },
			{ name: "a", type: "directory", mode: 0o755, text: "", link: "" },
			{ name: "a/link", type: "symlink", mode: 0o777, text: "", link: "../b.txt" },
			{ name: "a/y", type: "file", mode: 0o644, text: "", link: "" },
			{ name: "a/z", type: "file", mode: 0o644, text: "zed", link: "" },
			{ name: "b.txt", type: "file", mode: 0o750, text: "bee", link: "" },
		]);
	});

	test("a file of many chunks and a long name arrive whole", async () => {
		const text = "0123456789".repeat(200_000);
		const name = `${"d".repeat(120)}/${"ü".repeat(100)}.txt`;
		put({ [name]: text, after: "x" });
		const entries = await unpacked();
		expect(entries.find((entry) => entry.name === name)?.text.length).toBe(text.length);
		expect(entries.at(0)?.name).toBe("after");
	});

	test("a reader that leaves early ends the reading", async () => {
		put({ big: "x".repeat(3_000_000), other: "y" });
		const stream = await packDirectory(directory);
		for await (const chunk of stream) {
			expect(chunk.length).toBeGreaterThan(0);
			break;
		}
		expect(stream.destroyed).toBe(true);
	});

	test("a pipe in the context is passed over and never waited for", async () => {
		put({ Dockerfile: "FROM x" });
		execFileSync("mkfifo", [join(directory, "pipe")]);
		expect(await paths()).toEqual(["Dockerfile"]);
	});

	test("a directory that is not there is refused by name", async () => {
		await expect(packDirectory(join(directory, "none"))).rejects.toMatchObject({
			code: "invalid_input",
			message: expect.stringContaining(join(directory, "none")),
		});
	});

	test("a file that may not be read ends the stream with its name", async () => {
		put({ Dockerfile: "FROM x", secret: "s" });
		chmodSync(join(directory, "secret"), 0);
		chmodSync(directory, 0o755);
		const uid = process.geteuid?.();
		if (uid === 0) process.seteuid?.(65534);
		try {
			const reading = (await packDirectory(directory)).toArray();
			await expect(reading).rejects.toMatchObject({
				code: "invalid_input",
				message: expect.stringContaining(join(directory, "secret")),
			});
		} finally {
			if (uid === 0) process.seteuid?.(0);
		}
	});

	test("a file that grows shorter while it is read is an error, not a broken archive", async () => {
		put({ big: "x".repeat(8_000_000) });
		const stream = await packDirectory(directory);
		const reading = (async () => {
			for await (const _ of stream) truncateSync(join(directory, "big"), 1000);
		})();
		await expect(reading).rejects.toMatchObject({ code: "invalid_input", message: expect.stringContaining("big") });
	});
});

describe("what .dockerignore leaves out", () => {
	const files = {
		Dockerfile: "FROM x",
		"README.md": "",
		"src/a.ts": "",
		"src/a.test.ts": "",
		"src/deep/b.test.ts": "",
		"node_modules/x/index.js": "",
		"node_modules/keep/index.js": "",
	};

	test.each<[string, string, string[]]>([
		["nothing without rules", "# README.md\n\n", Object.keys(files)],
		["a directory with and without slashes", "/node_modules/\nsrc\n", ["Dockerfile", "README.md"]],
		["names at any depth", "**/*.test.ts\nnode_modules", ["Dockerfile", "README.md", "src/a.ts"]],
		["a star stays within a name", "src/*.ts\nnode_modules", ["Dockerfile", "README.md", "src/deep/b.test.ts"]],
		["the last rule decides", "*\n!src\nsrc/deep\n", ["Dockerfile", "src/a.test.ts", "src/a.ts"]],
		[
			"a readmitted file beneath a directory left out",
			"node_modules\n!node_modules/keep/*\nsrc\n",
			["Dockerfile", "README.md", "node_modules/keep/index.js"],
		],
		["a readmission at any depth", "*\n!**/b.*", ["Dockerfile", "src/deep/b.test.ts"]],
		["question marks and classes", "src/[a-c].t?\nnode_modules\nsrc/**/[^z]*.test.ts", ["Dockerfile", "README.md"]],
		["never the Dockerfile", "*", ["Dockerfile"]],
	])("%s", async (_, rules, kept) => {
		put({ ...files, ".dockerignore": rules });
		const listed = (await listContext(directory)).filter((entry) => entry.kind === "file").map((entry) => entry.path);
		expect(new Set(listed)).toEqual(new Set([".dockerignore", ...kept]));
	});

	test("a directory left out is not entered", async () => {
		put({ Dockerfile: "FROM x", ".dockerignore": "closed", "closed/file": "" });
		chmodSync(join(directory, "closed"), 0);
		chmodSync(directory, 0o755);
		const uid = process.geteuid?.();
		if (uid === 0) process.seteuid?.(65534);
		try {
			expect(await paths()).toEqual([".dockerignore", "Dockerfile"]);
		} finally {
			if (uid === 0) process.seteuid?.(0);
			chmodSync(join(directory, "closed"), 0o755);
		}
	});

	test("a directory all of whose files are left out one by one does not appear", async () => {
		put({ Dockerfile: "FROM x", ".dockerignore": "logs\n!logs/keep", "logs/a": "" });
		expect(await paths()).toEqual([".dockerignore", "Dockerfile"]);
	});

	test("a pattern that cannot be read is refused with its line", async () => {
		put({ Dockerfile: "FROM x", ".dockerignore": "ok\n[a-\n" });
		await expect(listContext(directory)).rejects.toMatchObject({
			code: "invalid_input",
			message: expect.stringContaining("line 2"),
		});
	});
});

import { execFileSync } from "node:child_process";
import { closeSync, mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
	displayName,
	findStat,
	openChild,
	openDescendant,
	openDirectory,
	openFile,
	readNames,
} from "../../../src/workspace/fd-walk.js";
import { openDescriptors, scratch } from "./support.js";

describe.each([{ byPath: false }, { byPath: true }])("walking by descriptor (by path: $byPath)", ({ byPath }) => {
	test("no name leads out of the directory: it is one component, or refused", () => {
		const place = scratch();
		const directory = openDirectory(place, { byPath });
		const odd = fc.constantFrom(
			"..",
			".",
			"",
			"/",
			"a/b",
			"../x",
			"/etc/passwd",
			"a\0",
			"..\0",
			"x".repeat(256),
			"…/..",
		);
		const fragments = fc.array(fc.constantFrom("..", ".", "/", "a", "\0", "\n", "é", " "), { maxLength: 5 });
		const anyName = fc.oneof(
			odd,
			fragments.map((parts) => parts.join("")),
			fc.string(),
		);
		fc.assert(
			fc.property(anyName, (name) => {
				let path: string;
				try {
					path = directory.at(name).toString();
				} catch (error) {
					expect(error).toMatchObject({ code: "invalid_input" });
					return;
				}
				expect(path).toBe(`${directory.base.toString()}/${Buffer.from(name).toString()}`);
				expect(name).not.toMatch(/[/\0]/);
				expect(["", ".", ".."]).not.toContain(name);
			}),
		);
		directory.close();
	});

	test("a link is no directory and no file", () => {
		const place = scratch();
		mkdirSync(join(place, "real"));
		writeFileSync(join(place, "real", "f"), "secret");
		symlinkSync("real", join(place, "link"));
		symlinkSync("real/f", join(place, "file-link"));
		const top = openDirectory(place, { byPath });
		expect(() => openChild(top, "link")).toThrow(/ENOTDIR|ELOOP/);
		expect(() => openDescendant(top, ["link", "f"])).toThrow(/ENOTDIR|ELOOP/);
		expect(() => openFile(top, "file-link")).toThrow("ELOOP");
		expect(findStat(top, "link")?.isSymbolicLink()).toBe(true);
		expect(findStat(top, "none")).toBeUndefined();
		top.close();
	});

	test("a regular file opens; a FIFO is refused without waiting, a socket and a directory too", async () => {
		const place = scratch();
		writeFileSync(join(place, "file"), "text");
		execFileSync("mkfifo", [join(place, "fifo")]);
		mkdirSync(join(place, "directory"));
		const server = createServer();
		await new Promise<void>((resolve) => server.listen(join(place, "socket"), resolve));
		const top = openDirectory(place, { byPath });
		const fd = openFile(top, "file");
		expect(fd === undefined ? "" : readFileSync(fd, "utf8")).toBe("text");
		if (fd !== undefined) closeSync(fd);
		expect(openFile(top, "fifo")).toBeUndefined();
		expect(openFile(top, "directory")).toBeUndefined();
		expect(() => openFile(top, "socket")).toThrow("ENXIO");
		const types = [...readNames(top)].flat().map(({ name, type }) => `${name.toString()} ${type}`);
		expect(types.sort()).toEqual(["directory directory", "fifo fifo", "file file", "socket socket"]);
		top.close();
		server.close();
	});

	test("names come as bytes, in batches, all of them once", () => {
		const place = scratch();
		const odd = Buffer.from([0x66, 0xff, 0x0a]);
		writeFileSync(Buffer.concat([Buffer.from(`${place}/`), odd]), "");
		for (let i = 0; i < 250; i++) writeFileSync(join(place, `n${i}`), "");
		const top = openDirectory(place, { byPath });
		const batches = [...readNames(top, 100)];
		top.close();
		expect(batches.map((batch) => batch.length)).toEqual([100, 100, 51]);
		expect(new Set(batches.flat().map(({ name }) => name.toString("hex"))).size).toBe(251);
		expect(batches.flat().some(({ name }) => name.equals(odd))).toBe(true);
	});

	test("nothing stays open, whatever fails", () => {
		const place = scratch();
		mkdirSync(join(place, "a", "b"), { recursive: true });
		const before = openDescriptors();
		const top = openDirectory(place, { byPath });
		openDescendant(top, ["a", "b"]).close();
		openDescendant(top, []).close();
		expect(() => openDescendant(top, ["a", "none", "x"])).toThrow("ENOENT");
		for (const _ of readNames(top)) break;
		top.close();
		top.close();
		expect(openDescriptors()).toBe(before);
	});
});

test("an open directory is reached wherever it has been moved", () => {
	const place = scratch();
	mkdirSync(join(place, "a"));
	writeFileSync(join(place, "a", "f"), "mine");
	mkdirSync(join(place, "decoy"));
	writeFileSync(join(place, "decoy", "f"), "decoy");
	const top = openDirectory(place);
	const child = openChild(top, "a");
	renameSync(join(place, "a"), join(place, "moved"));
	symlinkSync("decoy", join(place, "a"));
	const fd = openFile(child, "f");
	expect(fd === undefined ? "" : readFileSync(fd, "utf8")).toBe("mine");
	if (fd !== undefined) closeSync(fd);
	child.close();
	top.close();
});

test("names are shown without control characters", () => {
	expect(displayName(Buffer.from('a\nb\u001b[31m"\\é'))).toBe('a\\nb\\u001b[31m"\\é');
});

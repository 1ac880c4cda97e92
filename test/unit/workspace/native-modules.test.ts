import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { findNativeModules } from "../../../src/workspace/native-modules.js";
import { makeDeep, makeWide, scratch } from "./support.js";

function write(directory: string, paths: readonly string[]): void {
	for (const path of paths) {
		mkdirSync(dirname(join(directory, path)), { recursive: true });
		writeFileSync(join(directory, path), "");
	}
}

test("native modules are found by name, nearest first, and nothing else is", async () => {
	const place = scratch();
	write(place, [
		"node_modules/a/build/Release/a.node",
		"lib/libx.so.1.2",
		"top.so",
		"src/b.node.js",
		"src/also",
		"src/resonate.sofa",
		"so/readme.md",
	]);
	mkdirSync(join(place, "directory.node"));
	expect(await findNativeModules(place)).toEqual(["top.so", "lib/libx.so.1.2", "node_modules/a/build/Release/a.node"]);
	expect(await findNativeModules(place, { maxResults: 1 })).toEqual(["top.so"]);
});

test("links are not followed, out of the workspace or in a circle", async () => {
	const place = scratch();
	write(place, ["outside/x.so", "in/plain"]);
	symlinkSync("../outside", join(place, "in", "out"));
	symlinkSync("../outside/x.so", join(place, "in", "y.so"));
	symlinkSync(".", join(place, "in", "self"));
	expect(await findNativeModules(join(place, "in"))).toEqual([]);
});

test("the search ends at its limits", async () => {
	const place = scratch();
	makeWide(join(place, "wide"), 3000);
	write(place, ["wide/z/z/late.so", "a/b/c/d.so"]);
	expect(await findNativeModules(place, { maxEntries: 100 })).toEqual([]);
	expect(await findNativeModules(place, { maxDepth: 2 })).toEqual([]);
	expect(await findNativeModules(place, { maxMs: 0 })).toEqual([]);
	expect(await findNativeModules(place)).toHaveLength(2);
	makeDeep(join(place, "deep"), 300);
	expect(await findNativeModules(join(place, "deep"))).toEqual([]);
});

test("a directory that is not there has none", async () => {
	expect(await findNativeModules(join(scratch(), "none"))).toEqual([]);
});

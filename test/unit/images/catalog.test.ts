import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { getRecipe, readCatalog, shippedImages } from "../../../src/images/catalog.js";

let directory: string;

beforeEach(() => {
	directory = mkdtempSync(join(tmpdir(), "catalog-"));
	for (const runtime of ["node", "python"]) {
		mkdirSync(join(directory, "images", runtime), { recursive: true });
		writeFileSync(join(directory, "images", runtime, "Dockerfile"), "FROM scratch\n");
	}
	mkdirSync(join(directory, "images", "notes"));
});
afterEach(() => {
	rmSync(directory, { recursive: true, force: true });
});

describe("which runtimes there are", () => {
	test("the package ships five", () => {
		expect([...readCatalog(shippedImages()).keys()]).toEqual(["browser", "media", "node", "node-python", "python"]);
	});

	test.each(["dist/index.js", "dist/cli/sbx.js", "dist/chunk/a.js", "src/images/catalog.ts"])(
		"the shipped images are found from %s",
		(file) => {
			expect(shippedImages(join(directory, file))).toBe(join(directory, "images"));
		},
	);

	test("a package without its images says so", () => {
		expect(() => shippedImages(join(tmpdir(), "nowhere", "index.js"))).toThrow(/images\/.* is missing/);
	});

	test("a folder without a Dockerfile is no runtime", () => {
		expect([...readCatalog(join(directory, "images")).keys()]).toEqual(["node", "python"]);
	});

	test("a custom runtime is added, and one of a shipped name takes its place", () => {
		const own = join(directory, "images", "python");
		const recipes = readCatalog(join(directory, "images"), {
			mine: own,
			node: { buildArgs: { BASE_IMAGE: "mirror.example/node:22" } },
		});
		expect(recipes.get("mine")).toEqual({ runtime: "mine", context: own, buildArgs: {} });
		expect(recipes.get("node")).toEqual({
			runtime: "node",
			context: join(directory, "images", "node"),
			buildArgs: { BASE_IMAGE: "mirror.example/node:22" },
		});
	});

	test.each<[string, Record<string, unknown>, string]>([
		["a name that no tag can have", { "My Image": "." }, "runtime names"],
		["a folder without a Dockerfile", { mine: "/" }, "images.mine.context"],
		["no folder", { mine: {} }, "images.mine.context"],
		["an unknown option", { node: { args: {} } }, "images.node"],
		["a build argument that is no string", { node: { buildArgs: { A: 1 } } }, "images.node.buildArgs.A"],
	])("%s is refused", (_, custom, message) => {
		const read = (): unknown => readCatalog(join(directory, "images"), custom as Record<string, string>);
		expect(read).toThrow(expect.objectContaining({ code: "invalid_input" }));
		expect(read).toThrow(message);
	});

	test("an unknown runtime is refused with the known ones, the likeliest first", () => {
		const recipes = readCatalog(shippedImages());
		expect(() => getRecipe(recipes, "nodejs")).toThrow('did you mean "node"? Known: node, browser, media');
		expect(() => getRecipe(recipes, "zzzzzzzz")).toThrow("Known: browser, media, node, node-python, python");
		expect(() => getRecipe(recipes, "__proto__")).toThrow(expect.objectContaining({ code: "invalid_input" }));
	});
});

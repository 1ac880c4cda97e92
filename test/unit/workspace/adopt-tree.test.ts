import { lstatSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { adoptTree } from "../../../src/workspace/adopt-tree.js";

let home: string;
beforeEach(() => {
	home = mkdtempSync(join(tmpdir(), "sandboxes-adopt-"));
});
afterEach(() => rmSync(home, { recursive: true }));

test.skipIf(process.getuid?.() !== 0)(
	"everything inside gets the owner, and nothing that a link leads to",
	async () => {
		mkdirSync(join(home, "tree", "a", "b"), { recursive: true });
		mkdirSync(join(home, "outside"));
		writeFileSync(join(home, "outside", "f"), "");
		writeFileSync(join(home, "tree", "a", "b", "f"), "", { mode: 0o400 });
		mkdirSync(join(home, "tree", "shut"), { mode: 0 });
		symlinkSync(join(home, "outside"), join(home, "tree", "to-outside"));
		symlinkSync(join(home, "outside", "f"), join(home, "tree", "to-file"));
		expect(await adoptTree(join(home, "tree"), { uid: 4001, gid: 4002 })).toBe(6);
		for (const path of ["a", "a/b", "a/b/f", "shut", "to-outside", "to-file"]) {
			expect([path, lstatSync(join(home, "tree", path)).uid, lstatSync(join(home, "tree", path)).gid]).toEqual([
				path,
				4001,
				4002,
			]);
		}
		expect(statSync(join(home, "outside")).uid).toBe(0);
		expect(statSync(join(home, "outside", "f")).uid).toBe(0);
		expect(await adoptTree(join(home, "tree"), { uid: 4001, gid: 4002 })).toBe(0);
	},
);

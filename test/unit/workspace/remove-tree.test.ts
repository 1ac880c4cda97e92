import { execFileSync, spawn } from "node:child_process";
import {
	chmodSync,
	chownSync,
	existsSync,
	lstatSync,
	mkdirSync,
	mkdtempSync,
	readdirSync,
	readFileSync,
	renameSync,
	rmdirSync,
	rmSync,
	symlinkSync,
	truncateSync,
	unlinkSync,
	writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { removeTree } from "../../../src/workspace/remove-tree.js";
import { asUser, isRoot, makeDeep, makeWide, needsRoot, openDescriptors, scratch } from "./support.js";

describe.each([{ byPath: false }, { byPath: true }])("removing a tree (by path: $byPath)", ({ byPath }) => {
	test("takes away the directory, all in it, and nothing beside it", async () => {
		const place = scratch();
		for (const name of ["w", "w-evil"]) {
			mkdirSync(join(place, name, "a", "b"), { recursive: true });
			writeFileSync(join(place, name, "a", "b", "f"), "1");
		}
		expect(await removeTree(join(place, "w"), { byPath })).toBe(4);
		expect(readdirSync(place)).toEqual(["w-evil"]);
		expect(readFileSync(join(place, "w-evil", "a", "b", "f"), "utf8")).toBe("1");
	});

	test("finds nothing where nothing is", async () => {
		expect(await removeTree(join(scratch(), "none"), { byPath })).toBe(0);
	});

	test("deletes links, and not what they lead to", async () => {
		const place = scratch();
		const decoy = join(place, "decoy");
		mkdirSync(join(decoy, "sub"), { recursive: true });
		writeFileSync(join(decoy, "sub", "f"), "kept");
		const tree = join(place, "tree");
		mkdirSync(tree);
		symlinkSync(decoy, join(tree, "absolute"));
		symlinkSync("../decoy/sub/f", join(tree, "relative"));
		symlinkSync("loop", join(tree, "loop"));
		symlinkSync("/nowhere", join(tree, "dangling"));
		await removeTree(tree, { byPath });
		symlinkSync(decoy, tree);
		await removeTree(tree, { byPath });
		expect(readdirSync(place)).toEqual(["decoy"]);
		expect(readFileSync(join(decoy, "sub", "f"), "utf8")).toBe("kept");
	});

	test("does not wait for FIFOs and sockets", async () => {
		const place = scratch();
		const tree = join(place, "tree");
		mkdirSync(tree);
		execFileSync("mkfifo", [join(tree, "fifo")]);
		const server = createServer();
		await new Promise<void>((resolve) => server.listen(join(tree, "socket"), resolve));
		await removeTree(tree, { byPath });
		server.close();
		expect(readdirSync(place)).toEqual([]);
	});

	test("takes names that are no text: invalid UTF-8, line ends, options, 255 bytes", async () => {
		const place = scratch();
		const tree = join(place, "tree");
		const names = [
			Buffer.from([0xff, 0xfe, 0x2f - 1]),
			Buffer.from("line\nend\r"),
			Buffer.from("-rf"),
			Buffer.from("..."),
			Buffer.from("e\u0301"),
			Buffer.from("\u00e9"),
			Buffer.alloc(255, "x"),
			Buffer.from("\\"),
		];
		for (const name of names) {
			const directory = Buffer.concat([Buffer.from(`${tree}/d`), name.subarray(0, 254)]);
			mkdirSync(directory, { recursive: true });
			writeFileSync(Buffer.concat([directory, Buffer.from("/"), name]), "");
		}
		expect(await removeTree(tree, { byPath })).toBe(names.length * 2 + 1);
		expect(readdirSync(place)).toEqual([]);
	});
});

describe("removing a tree", () => {
	test("goes deeper than paths and descriptors reach", async () => {
		const place = scratch();
		const tree = join(place, "tree");
		makeDeep(tree, 3000);
		const before = openDescriptors();
		let most = 0;
		const watch = setInterval(() => {
			most = Math.max(most, openDescriptors());
		}, 2);
		const count = await removeTree(tree);
		clearInterval(watch);
		expect(count).toBeGreaterThan(3000);
		expect(readdirSync(place)).toEqual([]);
		expect(most).toBeLessThan(before + 100);
		expect(openDescriptors()).toBeLessThanOrEqual(before);
	}, 60_000);

	test("lets the event loop turn while it deletes 100,000 entries, and tells how far it is", async () => {
		const place = scratch();
		makeWide(join(place, "tree"), 100_000);
		let turns = 0;
		const clock = setInterval(() => {
			turns += 1;
		}, 5);
		const told: number[] = [];
		const count = await removeTree(join(place, "tree"), { onRemoved: (entries) => told.push(entries) });
		clearInterval(clock);
		expect(count).toBe(100_001);
		expect(turns).toBeGreaterThan(20);
		expect(told.length).toBeGreaterThan(20);
		expect(told).toEqual([...told].sort((a, b) => a - b));
		expect(existsSync(join(place, "tree"))).toBe(false);
	}, 60_000);

	test("deletes large files too", async () => {
		const place = scratch();
		mkdirSync(join(place, "tree"));
		writeFileSync(join(place, "tree", "large"), Buffer.alloc(34 * 1024 * 1024, 1));
		writeFileSync(join(place, "tree", "sparse"), "");
		truncateSync(join(place, "tree", "sparse"), 2 ** 40);
		await removeTree(join(place, "tree"));
		expect(readdirSync(place)).toEqual([]);
	});

	test("ends with the signal's own reason, and a later call finishes", async () => {
		const place = scratch();
		makeWide(join(place, "tree"), 5000);
		const controller = new AbortController();
		const reason = new Error("enough");
		const before = openDescriptors();
		const work = removeTree(join(place, "tree"), {
			signal: controller.signal,
			onRemoved: () => controller.abort(reason),
		});
		await expect(work).rejects.toBe(reason);
		expect(existsSync(join(place, "tree"))).toBe(true);
		expect(openDescriptors()).toBeLessThanOrEqual(before);
		await removeTree(join(place, "tree"));
		expect(existsSync(join(place, "tree"))).toBe(false);
	});

	test("shares the work with another that deletes the same tree", async () => {
		const place = scratch();
		makeWide(join(place, "tree"), 5000);
		makeDeep(join(place, "tree", "deep"), 200);
		await Promise.all([1, 2, 3].map(() => removeTree(join(place, "tree"))));
		expect(readdirSync(place)).toEqual([]);
	});

	test("refuses a path that ends in no name", async () => {
		await expect(removeTree("/")).rejects.toMatchObject({ code: "invalid_input" });
	});
});

describe.runIf(isRoot)(`removing a tree as an ordinary user${needsRoot}`, () => {
	const uid = 1000;

	test("gives itself the rights on directories of its own: mode 000, read-only", async () => {
		const place = scratch();
		chownSync(place, uid, uid);
		await asUser(uid, async () => {
			const tree = join(place, "tree");
			mkdirSync(join(tree, "m", "x", "y"), { recursive: true });
			writeFileSync(join(tree, "m", "x", "y", "f"), "1", { mode: 0o444 });
			mkdirSync(join(tree, "closed", "in"), { recursive: true });
			writeFileSync(join(tree, "closed", "in", "f"), "1");
			chmodSync(join(tree, "closed", "in"), 0);
			chmodSync(join(tree, "closed"), 0);
			for (const name of ["m/x/y", "m/x", "m"]) chmodSync(join(tree, name), 0o555);
			chmodSync(tree, 0o500);
			// The obstacle is there.
			expect(() => unlinkSync(join(tree, "m", "x", "y", "f"))).toThrow("EACCES");
			await removeTree(tree);
		});
		expect(readdirSync(place)).toEqual([]);
	});

	test("goes deep through read-only directories", async () => {
		const place = scratch();
		chownSync(place, uid, uid);
		await asUser(uid, async () => {
			let path = join(place, "tree");
			const all: string[] = [];
			for (let level = 0; level < 100; level++, path = join(path, "d")) all.push(path);
			mkdirSync(path, { recursive: true });
			for (const directory of all.reverse()) chmodSync(directory, 0o555);
			await removeTree(join(place, "tree"));
		});
		expect(readdirSync(place)).toEqual([]);
	});

	function makeForeign(place: string): string {
		const tree = join(place, "tree");
		mkdirSync(join(tree, "mine"), { recursive: true });
		for (const path of [place, tree, join(tree, "mine")]) chownSync(path, uid, uid);
		writeFileSync(join(tree, "mine", "roots-file"), "");
		mkdirSync(join(tree, "mine", "roots-empty"), { mode: 0o700 });
		mkdirSync(join(tree, "roots", "sub"), { recursive: true });
		writeFileSync(join(tree, "roots", "sub", "f"), "");
		return tree;
	}

	test("names what belongs to others, after deleting all the rest", async () => {
		const tree = makeForeign(scratch());
		await expect(asUser(uid, () => removeTree(tree))).rejects.toMatchObject({
			code: "workspace_unusable",
			details: { path: join(tree, "roots", "sub", "f") },
			message: expect.stringContaining("roots/sub/f"),
		});
		expect(readdirSync(tree)).toEqual(["roots"]);
	});

	test("hands what belongs to others to the purge, and takes away what that leaves", async () => {
		const place = scratch();
		const tree = makeForeign(place);
		const purged: string[] = [];
		await asUser(uid, () =>
			removeTree(tree, {
				purge: async (directory) => {
					purged.push(directory);
					process.seteuid?.(0);
					execFileSync("find", [directory, "-mindepth", "1", "-delete"]);
					process.seteuid?.(uid);
				},
			}),
		);
		expect(purged).toEqual([tree]);
		expect(readdirSync(place)).toEqual([]);
	});

	test("does not believe a purge that did nothing", async () => {
		const tree = makeForeign(scratch());
		await expect(asUser(uid, () => removeTree(tree, { purge: async () => {} }))).rejects.toMatchObject({
			code: "workspace_unusable",
		});
	});

	test("calls no purge where none is needed", async () => {
		const place = scratch();
		chownSync(place, uid, uid);
		await asUser(uid, async () => {
			mkdirSync(join(place, "tree", "d"), { recursive: true });
			await removeTree(join(place, "tree"), { purge: () => Promise.reject(new Error("called")) });
		});
		expect(readdirSync(place)).toEqual([]);
	});
});

const canMount = isRoot && tryMount();

function tryMount(): boolean {
	const place = mkdtempSync(join(tmpdir(), "sandboxes-probe-"));
	try {
		execFileSync("mount", ["-t", "tmpfs", "none", place], { stdio: "ignore" });
		execFileSync("umount", [place]);
		return true;
	} catch {
		return false;
	} finally {
		rmdirSync(place);
	}
}

describe.runIf(canMount)(
	`mounts in a tree${canMount ? "" : " (skipped: only root with CAP_SYS_ADMIN can mount)"}`,
	() => {
		test.each(["tmpfs", "bind", "bind of a file"])("a %s in it is named and not entered", async (kind) => {
			const place = scratch("mount é o");
			const tree = join(place, "tree");
			const elsewhere = join(place, "elsewhere");
			const target = join(tree, "a", "mounted");
			mkdirSync(elsewhere);
			writeFileSync(join(elsewhere, "kept"), "kept");
			mkdirSync(join(tree, "a"), { recursive: true });
			writeFileSync(join(tree, "a", "f"), "");
			if (kind === "bind of a file") {
				writeFileSync(target, "");
				execFileSync("mount", ["--bind", join(elsewhere, "kept"), target]);
			} else {
				mkdirSync(target);
				execFileSync("mount", kind === "bind" ? ["--bind", elsewhere, target] : ["-t", "tmpfs", "none", target]);
				if (kind === "tmpfs") writeFileSync(join(target, "kept"), "kept");
			}
			try {
				await expect(removeTree(tree)).rejects.toMatchObject({
					code: "workspace_unusable",
					details: { path: target },
					message: expect.stringContaining("mount"),
				});
				expect(readFileSync(kind === "bind of a file" ? target : join(target, "kept"), "utf8")).toBe("kept");
				expect(existsSync(join(tree, "a", "f"))).toBe(false);
			} finally {
				execFileSync("umount", [target]);
			}
			await removeTree(tree);
			expect(readdirSync(place)).toEqual(["elsewhere"]);
			expect(readFileSync(join(elsewhere, "kept"), "utf8")).toBe("kept");
		});
	},
);

describe("a tree whose directory is swapped for a link out of it, again and again", () => {
	const FILES = 40;
	const ATTACKER = `
		const fs = require("node:fs"), [tree, decoy] = process.argv.slice(1);
		const quiet = (work) => { try { work(); } catch {} };
		process.stdout.write("ready");
		for (;;) {
			quiet(() => fs.renameSync(tree + "/d", tree + "/x"));
			quiet(() => fs.symlinkSync(decoy, tree + "/d"));
			quiet(() => fs.unlinkSync(tree + "/d"));
			quiet(() => fs.renameSync(tree + "/x", tree + "/d"));
		}`;

	/** The rounds played, and how many files of the decoy were lost, in a race of at most `limitMs`. */
	async function race(remove: (tree: string) => Promise<void>, limitMs: number) {
		const place = scratch("race");
		const tree = join(place, "tree");
		const decoy = join(place, "decoy");
		mkdirSync(join(decoy, "sub"), { recursive: true });
		for (let i = 0; i < FILES; i++) {
			writeFileSync(join(decoy, `f${i}`), "kept");
			writeFileSync(join(decoy, "sub", `f${i}`), "kept");
		}
		const attacker = spawn(process.execPath, ["-e", ATTACKER, tree, decoy], { stdio: ["ignore", "pipe", "inherit"] });
		await new Promise((resolve) => attacker.stdout.once("data", resolve));
		let rounds = 0;
		let swapsSeen = 0;
		let lost = 0;
		const end = Date.now() + limitMs;
		try {
			while (Date.now() < end || (swapsSeen === 0 && Date.now() < end + 10_000)) {
				rounds += 1;
				try {
					mkdirSync(join(tree, "new", "sub"), { recursive: true });
					for (let i = 0; i < FILES; i++) {
						writeFileSync(join(tree, "new", `f${i}`), "");
						writeFileSync(join(tree, "new", "sub", `f${i}`), "");
					}
					renameSync(join(tree, "new"), join(tree, "d"));
				} catch {
					// The attacker was there first; what stands there now is attacked as well.
				}
				if (lstatSync(join(tree, "d"), { throwIfNoEntry: false })?.isSymbolicLink()) swapsSeen += 1;
				await remove(tree).catch(() => {});
				lost = 2 * FILES - [decoy, join(decoy, "sub")].reduce((sum, at) => sum + countFiles(at), 0);
			}
		} finally {
			attacker.kill("SIGKILL");
			await new Promise((resolve) => attacker.once("close", resolve));
		}
		return { rounds, swapsSeen, lost };
	}

	test("costs not a byte outside, where a walk by path loses some", async () => {
		const ours = await race(async (tree) => void (await removeTree(tree)), 4000);
		expect(ours.lost).toBe(0);

		expect(ours.rounds).toBeGreaterThan(10);
		expect(ours.swapsSeen).toBeGreaterThan(0);
		// The control, with the attacker's swap at the one moment that counts: between the look at a path and its use.
		const place = scratch("control");
		const [tree, decoy] = [join(place, "tree"), join(place, "decoy")];
		mkdirSync(join(tree, "d"), { recursive: true });
		mkdirSync(decoy);
		for (let i = 0; i < FILES; i++) writeFileSync(join(decoy, `f${i}`), "kept");
		removeByPath(tree, (at) => {
			if (at !== join(tree, "d")) return;
			renameSync(at, join(tree, "x"));
			symlinkSync(decoy, at);
		});
		expect(countFiles(decoy)).toBe(0);
	}, 40_000);
});

function countFiles(directory: string): number {
	if (!existsSync(directory)) return 0;
	return readdirSync(directory).filter((name) => name.startsWith("f")).length;
}

/** What must not be done: look at a path, then use it. */
function removeByPath(path: string, between: (path: string) => void): void {
	const stat = lstatSync(path, { throwIfNoEntry: false });
	if (stat?.isDirectory()) {
		between(path);
		for (const name of readdirSync(path)) removeByPath(join(path, name), between);
	}
	rmSync(path, { recursive: true, force: true });
}

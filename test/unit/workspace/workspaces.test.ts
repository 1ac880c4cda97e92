import { execFileSync } from "node:child_process";
import {
	chmodSync,
	chownSync,
	existsSync,
	lstatSync,
	mkdirSync,
	readdirSync,
	readFileSync,
	readlinkSync,
	rmSync,
	statSync,
	symlinkSync,
	unlinkSync,
	writeFileSync,
} from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Root } from "../../../src/workspace/root.js";
import { Workspaces } from "../../../src/workspace/workspaces.js";
import { asUser, isRoot, makeDeep, makeWide, needsRoot, openDescriptors, scratch } from "./support.js";

const OWNER = { uid: process.getuid?.() || 1000, gid: process.getgid?.() || 1000 };
const invalidInput = expect.objectContaining({ code: "invalid_input" });
const unusable = expect.objectContaining({ code: "workspace_unusable" });

async function setUp(): Promise<{ root: string; workspaces: Workspaces; id: string }> {
	const root = await Root.open(join(scratch(), "root"));
	const workspaces = new Workspaces(root);
	return { root: root.path, workspaces, id: workspaces.newId() };
}

describe("the directories of a sandbox", () => {
	test("workspace and home are made once, for the user of the sandbox", async () => {
		const { workspaces, id } = await setUp();
		expect(await workspaces.exists(id)).toBe(false);
		expect(await workspaces.ensure(id, OWNER)).toEqual({ created: true });
		writeFileSync(join(workspaces.workspacePath(id), "f"), "kept");
		expect(await workspaces.ensure(id, OWNER)).toEqual({ created: false });
		expect(await workspaces.exists(id)).toBe(true);
		expect(readFileSync(join(workspaces.workspacePath(id), "f"), "utf8")).toBe("kept");
		for (const [path, mode] of [
			[workspaces.workspacePath(id), 0o755],
			[workspaces.homePath(id), 0o700],
		] as const) {
			expect(statSync(path)).toMatchObject(OWNER);
			expect(statSync(path).mode & 0o7777).toBe(mode);
		}
	});

	test("their modes do not depend on the umask", async () => {
		const { workspaces, id } = await setUp();
		const before = process.umask(0o077);
		try {
			await workspaces.ensure(id, OWNER);
			const { passwdPath } = await workspaces.writeAccounts(id, { passwd: "p", group: "g" });
			expect(statSync(workspaces.workspacePath(id)).mode & 0o777).toBe(0o755);
			expect(statSync(passwdPath).mode & 0o777).toBe(0o644);
		} finally {
			process.umask(before);
		}
	});

	test("a link in their place is neither followed nor changed", async () => {
		const { root, workspaces, id } = await setUp();
		const decoy = join(root, "..", "decoy");
		mkdirSync(decoy, { mode: 0o700 });
		const before = lstatSync(decoy);
		for (const area of ["workspaces", "homes", "accounts"]) {
			mkdirSync(join(root, area), { recursive: true });
			symlinkSync(decoy, join(root, area, id));
		}
		await expect(workspaces.ensure(id, { uid: 4242, gid: 4242 })).rejects.toThrow(unusable);
		await expect(workspaces.writeAccounts(id, { passwd: "p", group: "g" })).rejects.toThrow(unusable);
		expect(await workspaces.exists(id)).toBe(false);
		expect(lstatSync(decoy)).toMatchObject({ uid: before.uid, mode: before.mode });
		expect(readdirSync(decoy)).toEqual([]);
		expect(await workspaces.discard(id)).toBe(true);
		expect(existsSync(decoy)).toBe(true);
	});

	test("account files are replaced, never changed: who has them open keeps what was there", async () => {
		const { workspaces, id } = await setUp();
		const first = await workspaces.writeAccounts(id, { passwd: "one\n", group: "g\n" });
		const inode = statSync(first.passwdPath).ino;
		const keep = `${first.passwdPath}.kept`;
		execFileSync("ln", [first.passwdPath, keep]);
		expect(await workspaces.writeAccounts(id, { passwd: "two\n", group: "g\n" })).toEqual(first);
		expect(readFileSync(first.passwdPath, "utf8")).toBe("two\n");
		expect(statSync(first.passwdPath).ino).not.toBe(inode);
		expect(readFileSync(keep, "utf8")).toBe("one\n");
		unlinkSync(keep);
		expect(readdirSync(join(first.passwdPath, "..")).sort()).toEqual(["group.0", "passwd.0"]);
		for (const path of Object.values(first)) expect(statSync(path).mode & 0o777).toBe(0o644);
	});

	test.each(["", ".", "..", "../x", "a/b", "UPPER", "x".repeat(24), "0".repeat(23), `${"0".repeat(24)}\n`])(
		"an id that is none of ours is refused: %j",
		async (id) => {
			const { root, workspaces } = await setUp();
			const before = readdirSync(root);
			expect(() => workspaces.workspacePath(id)).toThrow(invalidInput);
			expect(() => workspaces.homePath(id)).toThrow(invalidInput);
			for (const call of [
				() => workspaces.ensure(id, OWNER),
				() => workspaces.exists(id),
				() => workspaces.writeAccounts(id, { passwd: "", group: "" }),
				() => workspaces.link("ci", "w", id),
				() => workspaces.discard(id),
			]) {
				await expect(call()).rejects.toThrow(invalidInput);
			}
			expect(readdirSync(root)).toEqual(before);
		},
	);

	test("all ids are listed, and nothing that is none", async () => {
		const { root, workspaces } = await setUp();
		expect(await workspaces.ids()).toEqual([]);
		const ids = Array.from({ length: 5 }, () => workspaces.newId());
		for (const id of ids) await workspaces.ensure(id, OWNER);
		mkdirSync(join(root, "workspaces", "other"));
		writeFileSync(join(root, "workspaces", "0".repeat(24)), "a file");
		expect(await workspaces.ids()).toEqual([...ids].sort());
	});
});

describe("the links for people", () => {
	test("lead to the workspace, are replaced in one step, and are read back", async () => {
		const { root, workspaces, id } = await setUp();
		const other = workspaces.newId();
		await workspaces.ensure(id, OWNER);
		await workspaces.link("ci", "w", other);
		await workspaces.link("ci", "w", id);
		await workspaces.link("ci-a", "w", other);
		writeFileSync(join(root, "names", "ci", "w", "through"), "1");
		expect(readdirSync(workspaces.workspacePath(id))).toEqual(["through"]);
		symlinkSync("../../../etc", join(root, "names", "ci", "foreign"));
		writeFileSync(join(root, "names", "ci", "file"), "");
		expect(await workspaces.links()).toEqual([
			{ prefix: "ci", name: "w", id },
			{ prefix: "ci-a", name: "w", id: other },
		]);
		expect(await workspaces.unlink("ci", "w")).toBe(true);
		expect(await workspaces.unlink("ci", "w")).toBe(false);
		expect(await workspaces.unlink("none", "w")).toBe(false);
		expect(await workspaces.unlink("ci", "file")).toBe(false);
		expect(await workspaces.exists(id)).toBe(true);
	});

	test("no name makes anything but one link in its own directory: the others are refused", async () => {
		const { root, workspaces, id } = await setUp();
		const odd = fc.constantFrom(
			..."foo.bar|.x|_x|UP|Проект|a/b|a:b|con|node_modules|__proto__|constructor|toString|..|.|../../id|-rf|/|a\0b".split(
				"|",
			),
			"",
			" ",
			"\n",
			"\ud800",
			"é",
			"e\u0301",
			"a".repeat(64),
			"a".repeat(255),
			"a".repeat(256),
			"é".repeat(200),
		);
		const anyName = fc.oneof(odd, fc.string({ unit: "binary", maxLength: 6 }), fc.string({ maxLength: 6 }));
		await fc.assert(
			fc.asyncProperty(anyName, anyName, async (prefix, name) => {
				rmSync(join(root, "names"), { recursive: true, force: true });
				const outside = readdirSync(root).filter((entry) => entry !== "names");
				try {
					await workspaces.link(prefix, name, id);
					expect(await workspaces.links()).toEqual([{ prefix, name, id }]);
					expect(readlinkSync(join(root, "names", prefix, name))).toBe(`../../workspaces/${id}`);
					expect(readdirSync(join(root, "names"))).toEqual([prefix]);
					expect(readdirSync(join(root, "names", prefix))).toEqual([name]);
					expect(await workspaces.unlink(prefix, name)).toBe(true);
				} catch (error) {
					expect(error).toEqual(invalidInput);
					await expect(workspaces.unlink(prefix, name)).rejects.toThrow(invalidInput);
					expect(await workspaces.links()).toEqual([]);
				}
				expect(readdirSync(root).filter((entry) => entry !== "names")).toEqual(outside);
			}),
			{ numRuns: 300 },
		);
	});

	test("a directory in the place of a link is not replaced", async () => {
		const { root, workspaces, id } = await setUp();
		mkdirSync(join(root, "names", "ci", "w"), { recursive: true });
		await expect(workspaces.link("ci", "w", id)).rejects.toThrow(unusable);
		expect(await workspaces.unlink("ci", "w")).toBe(false);
		expect(readdirSync(join(root, "names", "ci"))).toEqual(["w"]);
	});
});

describe("discarding a sandbox's directories", () => {
	test("takes all of them, says so, and leaves the neighbours and no trash", async () => {
		const { root, workspaces, id } = await setUp();
		const other = workspaces.newId();
		for (const each of [id, other]) {
			await workspaces.ensure(each, OWNER);
			await workspaces.writeAccounts(each, { passwd: "p", group: "g" });
		}
		makeWide(workspaces.workspacePath(id), 500);
		makeDeep(workspaces.homePath(id), 70);
		const before = openDescriptors();
		expect(await workspaces.discard(id)).toBe(true);
		expect(await workspaces.discard(id)).toBe(false);
		expect(openDescriptors()).toBe(before);
		for (const area of ["workspaces", "homes", "accounts"]) expect(readdirSync(join(root, area))).toEqual([other]);
		expect(readdirSync(join(root, "trash"))).toEqual([]);
	});

	test("in a root that has nothing yet answers that there was nothing", async () => {
		const { workspaces, id } = await setUp();
		expect(await workspaces.discard(id)).toBe(false);
		expect(await workspaces.emptyTrash()).toBe(0);
		expect(await workspaces.unlink("ci", "w")).toBe(false);
		expect(await workspaces.links()).toEqual([]);
	});

	test("frees the id at once, and one cut off is finished by the next or by emptying the trash", async () => {
		for (const finish of ["discard", "emptyTrash"] as const) {
			const { root, workspaces, id } = await setUp();
			await workspaces.ensure(id, OWNER);
			makeWide(workspaces.workspacePath(id), 5000);
			const controller = new AbortController();
			const seen: boolean[] = [];
			const cut = workspaces.discard(id, {
				signal: controller.signal,
				onProgress: ({ stage }) => {
					seen.push(stage === "remove" && !existsSync(workspaces.workspacePath(id)));
					controller.abort(new Error("cut"));
				},
			});
			await expect(cut).rejects.toThrow("cut");
			expect(seen).toEqual([true]);
			expect(await workspaces.exists(id)).toBe(false);
			expect(readdirSync(join(root, "trash"))).not.toEqual([]);
			await workspaces.ensure(id, OWNER);
			writeFileSync(join(workspaces.workspacePath(id), "new"), "");
			if (finish === "discard") expect(await workspaces.discard(id)).toBe(true);
			else {
				expect(await workspaces.emptyTrash()).toBeGreaterThan(0);
				expect(readdirSync(workspaces.workspacePath(id))).toEqual(["new"]);
			}
			expect(readdirSync(join(root, "trash"))).toEqual([]);
		}
	});

	test("is safe beside others that discard and empty the trash", async () => {
		const { root, workspaces } = await setUp();
		const ids = Array.from({ length: 20 }, () => workspaces.newId());
		for (const id of ids) {
			await workspaces.ensure(id, OWNER);
			makeWide(workspaces.workspacePath(id), 200);
		}
		const work = ids.flatMap((id) => [workspaces.discard(id), workspaces.emptyTrash(), workspaces.discard(id)]);
		await Promise.all(work);
		expect(await workspaces.ids()).toEqual([]);
		expect(readdirSync(join(root, "trash"))).toEqual([]);
	});

	test("takes read-only directories and files, and modes of 000", async () => {
		const { root, workspaces, id } = await setUp();
		const work = async (): Promise<void> => {
			await workspaces.ensure(id, OWNER);
			const top = workspaces.workspacePath(id);
			mkdirSync(join(top, "m", "x", "y"), { recursive: true });
			writeFileSync(join(top, "m", "x", "y", "f"), "1");
			mkdirSync(join(top, "closed"), { mode: 0 });
			execFileSync("chmod", ["-R", "a-w", join(top, "m")]);
			chmodSync(top, 0o555);
			chmodSync(workspaces.homePath(id), 0);
			expect(await workspaces.discard(id)).toBe(true);
		};
		if (isRoot) {
			execFileSync("chown", ["-R", `${OWNER.uid}:${OWNER.gid}`, root]);
			chmodSync(join(root, ".."), 0o755);
			await asUser(OWNER.uid, work);
		} else await work();
		expect(await workspaces.ids()).toEqual([]);
		expect(readdirSync(join(root, "homes"))).toEqual([]);
		expect(readdirSync(join(root, "trash"))).toEqual([]);
	});

	describe.runIf(isRoot)(`as an ordinary user, of what belongs to root${needsRoot}`, () => {
		async function setUpAsUser() {
			const place = scratch();
			chownSync(place, 1000, 1000);
			return asUser(1000, async () => {
				const root = await Root.open(join(place, "root"));
				const workspaces = new Workspaces(root);
				const id = workspaces.newId();
				await workspaces.ensure(id, OWNER);
				return { root: root.path, workspaces, id };
			});
		}

		const purge = async (directory: string): Promise<void> => {
			process.seteuid?.(0);
			execFileSync("find", [directory, "-mindepth", "1", "-delete"]);
			process.seteuid?.(1000);
		};

		test.each(["a directory in it", "the workspace itself"])("a purge takes %s", async (what) => {
			const { root, workspaces, id } = await setUpAsUser();
			const top = workspaces.workspacePath(id);
			mkdirSync(join(top, "d"));
			writeFileSync(join(top, "d", "f"), "");
			if (what === "the workspace itself") {
				chownSync(top, 0, 0);
				chmodSync(top, 0o700);
			}
			await asUser(1000, async () => {
				await expect(workspaces.discard(id)).rejects.toThrow(unusable);
				expect(await workspaces.exists(id)).toBe(false);
				expect(await workspaces.ids()).toEqual([]);
				expect(await workspaces.discard(id, { purge })).toBe(true);
			});
			expect(readdirSync(join(root, "workspaces"))).toEqual([]);
			expect(readdirSync(join(root, "trash"))).toEqual([]);
		});

		test("one thing in the trash that cannot go does not keep the others, and is named", async () => {
			const { root, workspaces, id } = await setUpAsUser();
			const other = workspaces.newId();
			await asUser(1000, () => workspaces.ensure(other, OWNER));
			mkdirSync(join(workspaces.workspacePath(id), "stuck"));
			writeFileSync(join(workspaces.workspacePath(id), "stuck", "f"), "");
			await asUser(1000, async () => {
				await expect(workspaces.discard(id)).rejects.toThrow(/stuck\/f/);
				expect(await workspaces.discard(other)).toBe(true);
				await expect(workspaces.emptyTrash()).rejects.toThrow(/stuck\/f/);
				expect(await workspaces.emptyTrash({ purge })).toBe(1);
			});
			expect(readdirSync(join(root, "trash"))).toEqual([]);
		});
	});
});

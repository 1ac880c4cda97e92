import { execFile } from "node:child_process";
import {
	chmodSync,
	chownSync,
	cpSync,
	existsSync,
	mkdirSync,
	readdirSync,
	readFileSync,
	realpathSync,
	renameSync,
	rmSync,
	statSync,
	symlinkSync,
	writeFileSync,
} from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterEach, describe, expect, test, vi } from "vitest";
import { Root, resolveRootPath } from "../../../src/workspace/root.js";
import { Workspaces } from "../../../src/workspace/workspaces.js";
import { asUser, isRoot, needsRoot, scratch } from "./support.js";

const invalidInput = expect.objectContaining({ code: "invalid_input" });
const unusable = expect.objectContaining({ code: "workspace_unusable" });

describe("the path of a root", () => {
	afterEach(() => {
		vi.unstubAllEnvs();
	});

	test.each(["", " ", "/", "//", "/..", "/x/..", "a\0b", 1, null, {}, ["/a"], true, Buffer.from("/a")])(
		"%j is refused",
		(path) => {
			expect(() => resolveRootPath(path)).toThrow(invalidInput);
		},
	);

	test.each(
		"/etc /usr /var /proc /sys /dev /tmp /tmp/ /usr/../tmp /home /root /var/tmp /var/lib /proc/self /sys/fs /dev/x".split(
			" ",
		),
	)("%s is the system's and refused", (path) => {
		expect(() => resolveRootPath(path)).toThrow(invalidInput);
	});

	test("the home directory itself is refused, a directory in it is not", () => {
		vi.stubEnv("HOME", "/srv/people/me");
		expect(() => resolveRootPath("/srv/people/me/")).toThrow(invalidInput);
		expect(resolveRootPath("/srv/people/me/boxes")).toBe("/srv/people/me/boxes");
	});

	test("a relative path is resolved once, and a later chdir changes nothing", async () => {
		const place = realpathSync(scratch());
		const before = process.cwd();
		process.chdir(place);
		try {
			const root = await Root.open("rel/dir");
			process.chdir("/");
			expect(root.path).toBe(join(place, "rel", "dir"));
			const workspaces = new Workspaces(root);
			const id = workspaces.newId();
			await workspaces.ensure(id, { uid: 1000, gid: 1000 });
			expect(existsSync(join(place, "rel", "dir", "workspaces", id))).toBe(true);
		} finally {
			process.chdir(before);
		}
	});

	test("left out, it is the data directory of the user", () => {
		vi.stubEnv("XDG_DATA_HOME", "/srv/data");
		expect(resolveRootPath(undefined)).toBe("/srv/data/sandboxes");
		vi.stubEnv("XDG_DATA_HOME", "relative");
		expect(resolveRootPath(undefined)).toBe(join(homedir(), ".local", "share", "sandboxes"));
		vi.stubEnv("XDG_DATA_HOME", "");
		expect(resolveRootPath(undefined)).toBe(join(homedir(), ".local", "share", "sandboxes"));
		vi.stubEnv("HOME", "/");
		expect(() => resolveRootPath(undefined)).toThrow(invalidInput);
	});
});

describe("opening a root", () => {
	test("makes it for its owner alone, with an id that stays", async () => {
		const path = join(scratch(), "parents", "root");
		const first = await Root.open(path);
		expect(statSync(path).mode & 0o7777).toBe(0o700);
		expect(statSync(join(path, "id")).mode & 0o777).toBe(0o600);
		expect(first).toMatchObject({ path, origin: "made", id: expect.stringMatching(/^[0-9a-f]{32}$/) });
		const before = readdirSync(path);
		expect(await Root.open(path)).toMatchObject({ id: first.id, origin: "known" });
		expect(readdirSync(path)).toEqual(before);
		rmSync(path, { recursive: true });
		expect((await Root.open(path)).id).not.toBe(first.id);
	});

	test.each(['r o:o,t "é-x', "-rf", "new\nline", "ends with blank ", "$(id)", "%2e%2e", "..."])(
		"works where the path holds %j",
		async (name) => {
			const path = join(scratch(), name);
			const root = await Root.open(path);
			expect((await Root.open(path)).id).toBe(root.id);
			const workspaces = new Workspaces(root);
			const id = workspaces.newId();
			await workspaces.ensure(id, { uid: 1000, gid: 1000 });
			await workspaces.link("ci", "w", id);
			expect(readdirSync(join(path, "workspaces"))).toEqual([id]);
			expect(await workspaces.discard(id)).toBe(true);
			expect(await workspaces.ids()).toEqual([]);
			expect(readdirSync(resolve(path, ".."))).toEqual([name]);
		},
	);

	test("several processes that open new ones at once agree on one id for each", async () => {
		const place = scratch();
		const paths = Array.from({ length: 40 }, (_, index) => join(place, `root-${index}`));
		for (const [index, ids] of (await openInProcesses(paths, 4)).entries()) {
			expect(new Set(ids).size).toBe(1);
			const path = paths[index] ?? "";
			expect((await Root.open(path)).id).toBe(ids[0]);
			expect(readdirSync(path).sort()).toEqual(["id", "id.copy"]);
		}
	}, 60_000);

	test("several processes that open copies, or damaged ones, at once agree on one new id for each", async () => {
		const place = scratch();
		const original = await Root.open(join(place, "original"));
		const paths = Array.from({ length: 40 }, (_, index) => join(place, `root-${index}`));
		for (const [index, path] of paths.entries()) {
			cpSync(original.path, path, { recursive: true });
			if (index % 2 === 1) for (const name of ["id", "id.copy"]) writeFileSync(join(path, name), "");
		}
		const all = await openInProcesses(paths, 4);
		for (const [index, ids] of all.entries()) {
			expect(new Set(ids).size).toBe(1);
			expect((await Root.open(paths[index])).id).toBe(ids[0]);
		}
		expect(new Set([original.id, ...all.map((ids) => ids[0])]).size).toBe(41);
	}, 60_000);

	test("a copied root gets an id of its own, tells whose copy it is, and keeps what is in it", async () => {
		const place = scratch();
		const original = await Root.open(join(place, "original"));
		const id = new Workspaces(original).newId();
		await new Workspaces(original).ensure(id, { uid: 1000, gid: 1000 });
		cpSync(original.path, join(place, "copy"), { recursive: true });
		const copy = await Root.open(join(place, "copy"));
		expect(copy.origin).toBe("copied");
		expect(copy.id).not.toBe(original.id);
		expect(JSON.parse(readFileSync(join(copy.path, "id"), "utf8"))).toMatchObject({ copiedFrom: original.id });
		expect(await Root.open(copy.path)).toMatchObject({ id: copy.id, origin: "known" });
		expect(await Root.open(original.path)).toMatchObject({ id: original.id, origin: "known" });
		expect(await new Workspaces(copy).ids()).toEqual([id]);
		cpSync(copy.path, join(place, "copy of copy"), { recursive: true });
		expect([original.id, copy.id]).not.toContain((await Root.open(join(place, "copy of copy"))).id);
	});

	test("a moved root, and one reached through a link, keep their id", async () => {
		const place = scratch();
		const root = await Root.open(join(place, "before"));
		renameSync(root.path, join(place, "after"));
		expect((await Root.open(join(place, "after"))).id).toBe(root.id);
		symlinkSync("after", join(place, "link"));
		const linked = await Root.open(join(place, "link"));
		expect(linked).toMatchObject({ id: root.id, path: join(place, "link") });
	});

	test("a root whose file system got another device number at boot keeps its id", async () => {
		const root = await Root.open(join(scratch(), "root"));
		const record = JSON.parse(readFileSync(join(root.path, "id"), "utf8"));
		for (const name of ["id", "id.copy"]) {
			writeFileSync(join(root.path, name), JSON.stringify({ ...record, device: "1" }));
		}
		expect(await Root.open(root.path)).toMatchObject({ id: root.id, origin: "known" });
		expect(JSON.parse(readFileSync(join(root.path, "id"), "utf8"))).toEqual(record);
	});

	test.each(["", " \n", "null", "[]", "{}", '{"id":"x"}', "\0\0\0\0", '{"id":'])(
		"an id that reads %j is made again from its copy, and set aside",
		async (text) => {
			const root = await Root.open(join(scratch(), "root"));
			await new Workspaces(root).ensure(new Workspaces(root).newId(), { uid: 1000, gid: 1000 });
			writeFileSync(join(root.path, "id"), text);
			expect(await Root.open(root.path)).toMatchObject({ id: root.id, origin: "repaired" });
			expect(await Root.open(root.path)).toMatchObject({ id: root.id, origin: "known" });
			const aside = readdirSync(root.path).filter((name) => name.startsWith("id.damaged-"));
			expect(aside.map((name) => readFileSync(join(root.path, name), "utf8"))).toEqual([text]);
		},
	);

	test("a lost id is made again from its copy", async () => {
		const root = await Root.open(join(scratch(), "root"));
		rmSync(join(root.path, "id"));
		expect(await Root.open(root.path)).toMatchObject({ id: root.id, origin: "repaired" });
	});

	test("where the copy is damaged or lost as well, a new id is made and said to be new", async () => {
		const root = await Root.open(join(scratch(), "root"));
		const workspaces = new Workspaces(root);
		const id = workspaces.newId();
		await workspaces.ensure(id, { uid: 1000, gid: 1000 });
		writeFileSync(join(root.path, "id"), "{");
		writeFileSync(join(root.path, "id.copy"), "{");
		const renewed = await Root.open(root.path);
		expect(renewed.origin).toBe("renewed");
		expect(renewed.id).not.toBe(root.id);
		expect(await new Workspaces(renewed).ids()).toEqual([id]);
		for (const name of readdirSync(root.path)) if (name.startsWith("id")) rmSync(join(root.path, name));
		const again = await Root.open(root.path);
		expect(again.origin).toBe("renewed");
		expect(await Root.open(root.path)).toMatchObject({ id: again.id, origin: "known" });
	});

	test("a directory in use for something else is refused and left as it was", async () => {
		const place = scratch();
		for (const [name, file] of [
			["project", "package.json"],
			["with-an-id", "other"],
		] as const) {
			mkdirSync(join(place, name), { mode: 0o755 });
			writeFileSync(join(place, name, file), "x");
		}
		writeFileSync(join(place, "with-an-id", "id"), "not ours");
		for (const name of ["project", "with-an-id"]) {
			const before = readdirSync(join(place, name));
			await expect(Root.open(join(place, name))).rejects.toThrow(unusable);
			expect(readdirSync(join(place, name))).toEqual(before);
			expect(statSync(join(place, name)).mode & 0o777).toBe(0o755);
		}
		expect(readFileSync(join(place, "with-an-id", "id"), "utf8")).toBe("not ours");
	});

	test("an empty directory becomes a root; so does one whose maker was killed at the start", async () => {
		const place = scratch();
		mkdirSync(join(place, "empty"), { mode: 0o755 });
		expect((await Root.open(join(place, "empty"))).origin).toBe("made");
		expect(statSync(join(place, "empty")).mode & 0o777).toBe(0o700);
		mkdirSync(join(place, "killed"));
		writeFileSync(join(place, "killed", "id.0123456789abcdef.tmp"), '{"id"');
		expect((await Root.open(join(place, "killed"))).origin).toBe("made");
	});

	test("a root that others could enter is closed to them", async () => {
		const root = await Root.open(join(scratch(), "root"));
		chmodSync(root.path, 0o777);
		expect((await Root.open(root.path)).id).toBe(root.id);
		expect(statSync(root.path).mode & 0o777).toBe(0o700);
	});

	test("a file, a link that leads nowhere, to a file or to the system, and a circle are refused", async () => {
		const place = scratch();
		writeFileSync(join(place, "file"), "x");
		symlinkSync("nowhere", join(place, "dangling"));
		symlinkSync("file", join(place, "to-file"));
		symlinkSync("/etc", join(place, "to-etc"));
		symlinkSync("/", join(place, "to-top"));
		symlinkSync("circle", join(place, "circle"));
		const etc = statSync("/etc");
		for (const name of ["file", "file/below", "dangling", "to-file", "to-etc", "to-top", "circle"]) {
			await expect(Root.open(join(place, name)), name).rejects.toThrow(unusable);
		}
		expect(statSync("/etc").mode).toBe(etc.mode);
		expect(existsSync("/etc/id")).toBe(false);
	});

	describe.runIf(isRoot)(`among several users${needsRoot}`, () => {
		test("a root of somebody else's is refused, to root as well", async () => {
			const place = scratch();
			chmodSync(place, 0o777);
			const mine = await Root.open(join(place, "mine"));
			await expect(asUser(1000, () => Root.open(mine.path))).rejects.toThrow(unusable);
			const theirs = await asUser(1000, () => Root.open(join(place, "theirs")));
			await expect(Root.open(theirs.path)).rejects.toThrow(/uid 1000/);
			mkdirSync(join(place, "empty"));
			chownSync(join(place, "empty"), 1000, 1000);
			await expect(Root.open(join(place, "empty"))).rejects.toThrow(unusable);
			expect(readdirSync(join(place, "empty"))).toEqual([]);
		});

		test("a root below a directory the caller may not write is refused", async () => {
			const place = scratch();
			chmodSync(place, 0o755);
			await expect(asUser(1000, () => Root.open(join(place, "root")))).rejects.toThrow(/EACCES/);
		});
	});
});

/** The ids each path had for so many processes that opened all of them, in the same order at the same time. */
async function openInProcesses(paths: readonly string[], count: number): Promise<string[][]> {
	const module = resolve(import.meta.dirname, "../../../src/workspace/root.ts");
	const code = `
		const [module, at, ...paths] = process.argv.slice(1);
		const { Root } = await import(module);
		const ids = [];
		for (const [index, path] of paths.entries()) {
			while (Date.now() < Number(at) + index * 20);
			ids.push((await Root.open(path)).id);
		}
		process.stdout.write(JSON.stringify(ids));`;
	const run = promisify(execFile);
	const argv = ["--import", "tsx", "--input-type=module", "-e", code, module, String(Date.now() + 1500), ...paths];
	const outputs = await Promise.all(Array.from({ length: count }, () => run(process.execPath, argv)));
	const byProcess = outputs.map(({ stdout }) => JSON.parse(stdout) as string[]);
	return paths.map((_, index) => byProcess.map((ids) => ids[index] ?? ""));
}

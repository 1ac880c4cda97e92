import {
	existsSync,
	mkdirSync,
	mkdtempSync,
	readdirSync,
	readFileSync,
	renameSync,
	rmSync,
	symlinkSync,
	writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { isSandboxError, MiB, type SandboxEvent, Sandboxes } from "../../../src/index.js";
import { type EngineMethod, FakeEngine } from "../../support/fake-engine.js";

const image = "test:1";
let home: string;
let rootName = "root";
let round = 0;
let engine: FakeEngine;
let events: SandboxEvent[];
let sandboxes: Sandboxes;

beforeEach(() => {
	home = mkdtempSync(join(tmpdir(), "sandboxes-apply-"));
	rootName = "root";
	engine = newEngine();
	events = [];
	sandboxes = open();
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

function newEngine(): FakeEngine {
	const fake = new FakeEngine();
	fake.addImage({
		tags: [image],
		files: { "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "/etc/group": "root:x:0:\n", "/bin/sh": "" },
	});
	return fake;
}

function open(): Sandboxes {
	return new Sandboxes({ root: join(home, rootName), prefix: "p", engine, onEvent: (event) => events.push(event) });
}

function sandboxContainers(): { name: string; state: string }[] {
	return [...engine.containers.values()]
		.filter((container) => container.labels["sandboxes.role"] === "sandbox")
		.map(({ name, state }) => ({ name, state }));
}

function workspaces(): string[] {
	const path = join(home, rootName, "workspaces");
	return existsSync(path) ? readdirSync(path) : [];
}

const small = { image, memory: MiB(128) };
const large = { image, memory: MiB(256) };

describe("the order of things", () => {
	test("the row is written before the engine is asked to make anything, and its key is a label", async () => {
		await sandboxes.create("facts", small);
		const freeze = engine.freezeAt({ method: "createContainer" });
		const made = sandboxes.create("w", small);
		await freeze.reached;
		const rows = readFileSync(join(home, "root", "ledger.jsonl"), "utf8");
		freeze.release();
		await made;
		const key = engine.named("p-w")?.labels["sandboxes.op"] ?? "none";
		expect(rows).toContain(key);
		expect(rows).toMatch(/"state":"intent"/);
	});

	test("a rebuild makes the new container before the old one is stopped", async () => {
		await sandboxes.create("w", small);
		engine.calls.length = 0;
		await sandboxes.create("w", large);
		const order = engine.calls
			.map(({ method }) => method)
			.filter((method) =>
				["createContainer", "stopContainer", "startContainer", "removeContainer", "renameContainer"].includes(method),
			);
		expect(order).toEqual(["createContainer", "stopContainer", "startContainer", "removeContainer", "renameContainer"]);
	});

	test("nothing is deleted by name", async () => {
		await sandboxes.create("w", small);
		await sandboxes.create("w", large);
		await sandboxes.remove("w");
		for (const { args } of engine.calls.filter(({ method }) => method === "removeContainer"))
			expect(String(args[0])).toMatch(/^[0-9a-f]{64}$/);
	});

	test("bad input reaches no engine and makes no root", async () => {
		for (const name of ["", "UP", "a/b"])
			await expect(sandboxes.create(name, small)).rejects.toMatchObject({ code: "invalid_input" });
		await expect(sandboxes.create("w", { image: "UPPER/bad" })).rejects.toMatchObject({ code: "invalid_input" });
		await expect(sandboxes.create("w", { runtime: "nod" })).rejects.toMatchObject({
			code: "invalid_input",
			message: expect.stringContaining("node"),
		});
		expect(engine.calls).toEqual([]);
		expect(existsSync(join(home, "root"))).toBe(false);
	});
});

interface Scenario {
	readonly title: string;
	before(): Promise<unknown>;
	act(target: Sandboxes): Promise<unknown>;
	/** What must hold once the call has been repeated without faults. */
	readonly ends: "large" | "small" | "none";
}

const scenarios: readonly Scenario[] = [
	{ title: "create", before: async () => {}, act: (target) => target.create("w", large), ends: "large" },
	{
		title: "create over a reserved workspace",
		before: () => sandboxes.workspaceDir("w"),
		act: (target) => target.create("w", large),
		ends: "large",
	},
	{
		title: "rebuild",
		before: () => sandboxes.create("w", small),
		act: (target) => target.create("w", large),
		ends: "large",
	},
	{
		title: "start",
		before: async () => (await sandboxes.create("w", large)).stop(),
		act: (target) => target.create("w", large),
		ends: "large",
	},
	{
		title: "replace",
		before: () => sandboxes.create("w", small),
		act: (target) => target.create("w", { ...large, replace: true }),
		ends: "large",
	},
	{ title: "remove", before: () => sandboxes.create("w", small), act: (target) => target.remove("w"), ends: "none" },
];

describe.each(scenarios)("cut at every call: $title", ({ title, before, act, ends }) => {
	async function fresh(): Promise<void> {
		// A directory of its own for each: what a dead process was about to write does not meet the living.
		round += 1;
		rootName = `root-${round}`;
		engine = newEngine();
		sandboxes = open();
		await before();
		// The time of the calls counted is the act's own.
		const marker = workspaces()[0];
		if (marker) writeFileSync(join(home, rootName, "workspaces", marker, "marker"), "kept");
		engine.calls.length = 0;
	}

	test.each(["before", "after"] as const)(
		"an engine that fails %s its n-th call, for every n: the call repeated makes it good",
		async (when) => {
			await fresh();
			await act(sandboxes);
			const total = engine.calls.length;
			expect(total).toBeGreaterThan(2);
			for (let nth = 1; nth <= total; nth++) {
				await fresh();
				engine.failAt({ nth, when });
				const failure = await act(sandboxes).then(
					() => undefined,
					(error: unknown) => error,
				);
				engine.clearFaults();
				if (failure !== undefined) expect(isSandboxError(failure)).toBe(true);
				await settled(nth, when);
			}
		},
	);

	test("a process that ends at its n-th call, for every n: another one makes it good", async () => {
		await fresh();
		await act(sandboxes);
		const total = engine.calls.length;
		for (let nth = 1; nth <= total; nth++) {
			await fresh();
			const freeze = engine.freezeAt({ nth });
			const done = act(sandboxes).catch(() => {});
			await Promise.race([freeze.reached, done]);
			engine.clearFaults();
			// A call that never comes back is a process that is no more; what it held on to by path stays behind under that path.
			renameSync(join(home, rootName), join(home, `${rootName}-moved`));
			rootName = `${rootName}-moved`;
			rmSync(join(home, rootName, "locks"), { recursive: true, force: true });
			sandboxes = open();
			await settled(nth, "frozen");
		}
	});

	test.each(["before", "after"] as const)(
		"a holder that stops %s its n-th call, is overtaken and wakes up, for every n: what the other one made is untouched",
		async (when) => {
			await fresh();
			await act(sandboxes);
			const total = engine.calls.length;
			for (let nth = 1; nth <= total; nth++) {
				await fresh();
				const label = `${when} call ${nth}`;
				const freeze = engine.freezeAt({ nth, when });
				const stopped = act(sandboxes).catch((error: unknown) => error);
				await Promise.race([freeze.reached, stopped]);
				engine.clearFaults();
				// The lock is taken from the one that stopped; the other has another path to the same root, as another process has its own queue.
				const path = join(home, rootName);
				rmSync(join(path, "locks"), { recursive: true, force: true });
				symlinkSync(path, `${path}-other`);
				const other = new Sandboxes({ root: `${path}-other`, prefix: "p", engine });
				const box = await other.create("w", large);
				writeFileSync(join(box.workspaceDir, "theirs"), "kept");
				freeze.release();
				const end = await stopped;
				if (end instanceof Error) expect([label, isSandboxError(end)]).toEqual([label, true]);
				// A removal or replacement that went on found the other's sandbox on a fresh look and came last, whole. A failed one, and
				// any other call, leaves it as it is.
				const cameLast = !(end instanceof Error) && (title === "remove" || title === "replace");
				if (cameLast && title === "remove") {
					expect([label, workspaces(), sandboxContainers()]).toEqual([label, [], []]);
					continue;
				}
				const again = await other.create("w", large);
				expect([label, again.outcome]).toEqual([label, "served"]);
				if (!cameLast) {
					expect([label, again.id]).toEqual([label, box.id]);
					expect([label, existsSync(join(again.workspaceDir, "theirs"))]).toEqual([label, true]);
				}
				expect([label, sandboxContainers()]).toEqual([label, [{ name: "p-w", state: "running" }]]);
				expect([label, workspaces().length]).toEqual([label, 1]);
			}
		},
	);

	async function settled(nth: number, when: string): Promise<void> {
		const label = `${when} call ${nth}`;
		await act(sandboxes);
		const expected = ends === "none" ? [] : [{ name: "p-w", state: "running" }];
		expect([label, sandboxContainers()]).toEqual([label, expected]);
		const listed = await sandboxes.list();
		expect([label, listed.map(({ name, state }) => [name, state])]).toEqual([
			label,
			ends === "none" ? [] : [["w", "running"]],
		]);
		expect([label, workspaces().length]).toEqual([label, ends === "none" ? 0 : 1]);
		if (ends !== "none") {
			expect([label, (await sandboxes.create("w", large)).outcome]).toEqual([label, "served"]);
			expect([label, listed[0]?.memoryBytes]).toEqual([label, MiB(256)]);
		}
	}
});

describe("two at once", () => {
	test("another container of the same name that appears between look and create is adopted", async () => {
		await sandboxes.create("facts", small);
		const freeze = engine.freezeAt({ method: "createContainer" });
		const slow = sandboxes.create("w", small);
		await freeze.reached;
		// As another process would have it that was given the lock: same labels, another operation.
		const facts = engine.named("p-facts");
		if (!facts) throw new Error("no container to copy");
		const id = engine.addContainer({
			...facts.spec,
			name: "p-w",
			labels: { ...facts.labels, "sandboxes.name": "w", "sandboxes.op": "other" },
		});
		freeze.release();
		const box = await slow;
		expect(box.id).toBe(id);
		expect(sandboxContainers().filter(({ name }) => name === "p-w").length).toBe(1);
	});

	test("a name that the engine holds for a create nobody can see yet is waited for", async () => {
		const taken = Object.assign(new Error("unused"), {});
		const { SandboxError } = await import("../../../src/index.js");
		const error = new SandboxError("engine_failed", "name taken", {
			details: { status: 409, failure: "name_taken", call: "create" },
			cause: taken,
		});
		await sandboxes.create("facts", small);
		engine.failAt({ method: "createContainer", times: 3 }, error);
		expect((await sandboxes.create("w", small)).outcome).toBe("created");
		expect(
			engine.calls.filter(({ method }: { method: EngineMethod }) => method === "createContainer").length,
		).toBeGreaterThanOrEqual(5);
	});
});

test("images may be built before anything else, and the root is one all the same", async () => {
	await expect(sandboxes.images.list()).resolves.toMatchObject([{ runtime: "browser", built: false }, {}, {}, {}, {}]);
	expect((await sandboxes.images.build("node")).built).toBe(true);
	expect((await open().create("w", small)).outcome).toBe("created");
});

test("a listener that throws hurts nobody, and every outcome is told", async () => {
	const told: string[] = [];
	const loud = new Sandboxes({
		root: join(home, "root"),
		prefix: "p",
		engine,
		onEvent: (event) => {
			told.push(event.type);
			throw new Error("listener");
		},
	});
	await loud.create("w", small);
	await loud.create("w", large);
	await (await loud.get("w")).stop();
	await loud.create("w", large);
	await loud.create("w", { ...large, replace: true });
	await loud.remove("w");
	expect(told).toEqual(["created", "rebuilt", "stopped", "started", "removed", "replaced", "removed"]);
});

test("a workspace that moves to another libc with native modules in it gives a warning", async () => {
	engine.addImage({
		tags: ["musl:1"],
		files: {
			"/etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
			"/etc/group": "root:x:0:\n",
			"/bin/sh": "",
			"/lib/ld-musl-x86_64.so.1": "",
		},
	});
	engine.addImage({
		tags: ["gnu:1"],
		files: {
			"/etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
			"/etc/group": "root:x:0:\n",
			"/bin/sh": "",
			"/lib64/ld-linux-x86-64.so.2": "",
		},
	});
	const box = await sandboxes.create("w", { image: "gnu:1" });
	await sandboxes.create("w", { image: "musl:1" });
	expect(events.filter(({ type }) => type === "warning")).toEqual([]);
	await sandboxes.create("w", { image: "gnu:1" });
	mkdirSync(join(box.workspaceDir, "node_modules"));
	writeFileSync(join(box.workspaceDir, "node_modules", "fast.node"), "");
	await sandboxes.create("w", { image: "musl:1" });
	expect(events.filter(({ type }) => type === "warning")).toMatchObject([
		{ code: "libc_changed", name: "w", files: ["node_modules/fast.node"] },
	]);
});

import {
	existsSync,
	lstatSync,
	readdirSync,
	readFileSync,
	readlinkSync,
	statSync,
	truncateSync,
	writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { GiB, isSandboxError, MiB, type Sandboxes } from "../../src/index.js";
import { docker, makeFleet, runProcess, TEST_IMAGE, type TestFleet } from "../support/fleet.js";

const image = TEST_IMAGE;
let fleet: TestFleet;
let sandboxes: Sandboxes;
beforeAll(() => {
	fleet = makeFleet();
	sandboxes = fleet.sandboxes;
});
afterAll(() => fleet.dispose());

async function codeOf(promise: Promise<unknown>): Promise<string | undefined> {
	try {
		await promise;
	} catch (error) {
		return isSandboxError(error) ? error.code : `not typed: ${String(error)}`;
	}
	return undefined;
}

interface Made {
	readonly id: string;
	readonly outcome: string;
}

describe("reuse", () => {
	test("the same name gives the same container, from a new object and from a new process", async () => {
		const first = await sandboxes.create("reuse", { image });
		expect(first).toMatchObject({ name: "reuse", outcome: "created", created: true, image });
		expect(first.imageId).toMatch(/^sha256:/);
		expect(first.reasons).toEqual([{ kind: "absent" }]);
		const again = await fleet.again().create("reuse", { image });
		expect(again).toMatchObject({
			id: first.id,
			outcome: "served",
			created: false,
			reasons: [],
			workspaceDir: first.workspaceDir,
		});
		expect(again.createdAt).toEqual(first.createdAt);
		const [other] = await runProcess<Made[]>("create-in-process.ts", [fleet.root, fleet.prefix, "reuse"]);
		expect(other).toMatchObject({ id: first.id, outcome: "served" });
	});

	test("less serves from more, more rebuilds over the same workspace, and the reason is told", async () => {
		const first = await sandboxes.create("room", { image, memory: GiB(2) });
		await first.exec("mkdir -p node_modules && echo kept > node_modules/marker; echo lost > /tmp/elsewhere");
		expect((await sandboxes.create("room", { image, memory: MiB(256) })).id).toBe(first.id);
		const rebuilt = await sandboxes.create("room", { image, memory: GiB(4) });
		expect(rebuilt).toMatchObject({ outcome: "rebuilt", created: false, workspaceDir: first.workspaceDir });
		expect(rebuilt.id).not.toBe(first.id);
		expect(rebuilt.reasons).toEqual([
			{ kind: "shape", field: "memoryBytes", rule: "capacity", have: GiB(2), want: GiB(4) },
		]);
		expect((await rebuilt.exec("cat node_modules/marker; ls /tmp")).stdout).toBe("kept\n");
		expect((await sandboxes.create("room", { image, memory: GiB(4) })).outcome).toBe("served");
		const names = (await fleet.containers()).filter(({ name }) => name.includes("room")).map(({ name }) => name);
		expect(names).toEqual([`${fleet.prefix}-room`]);
	});

	test("a looser lifetime is rebuilt, a tighter one serves", async () => {
		const hour = await sandboxes.create("ceiling", { image, maxLifetimeMs: 3_600_000 });
		const minute = await sandboxes.create("ceiling", { image, maxLifetimeMs: 60_000 });
		expect(minute.outcome).toBe("rebuilt");
		const loose = await sandboxes.create("ceiling", { image, maxLifetimeMs: 3_600_000 });
		expect([loose.id, loose.outcome]).toEqual([minute.id, "served"]);
		expect(minute.id).not.toBe(hour.id);
	});

	test("one older than a lifetime is rebuilt though nothing has swept", async () => {
		let nowMs = Date.now();
		const later = fleet.again({ clock: { nowMs: () => nowMs } });
		const young = await later.create("age", { image, maxLifetimeMs: 60_000 });
		nowMs += 59_000;
		expect((await later.create("age", { image, maxLifetimeMs: 0 })).id).toBe(young.id);
		nowMs += 1000;
		const rebuilt = await later.create("age", { image, maxLifetimeMs: 0 });
		expect(rebuilt.reasons).toContainEqual({ kind: "expired", ageMs: 60_000, limitMs: 60_000 });
	});

	test("another content under the same tag is another image", async () => {
		const tag = `sandboxes-test-moved:${fleet.prefix}`;
		await docker("tag", image, tag);
		try {
			const first = await sandboxes.create("moved", { image: tag });
			const holder = (await docker("create", "--label", `sandboxes.prefix=${fleet.prefix}`, image, "true")).trim();
			await docker("commit", "--change", "LABEL moved=yes", holder, tag);
			await docker("rm", holder);
			const second = await sandboxes.create("moved", { image: tag });
			expect(second.outcome).toBe("rebuilt");
			expect(second.reasons).toMatchObject([{ kind: "shape", field: "imageId", rule: "identity" }]);
			expect(second.imageId).not.toBe(first.imageId);
			await sandboxes.remove("moved");
		} finally {
			await docker("rmi", "-f", tag);
		}
	});

	test("the warm path takes no lock, writes nothing and makes at most two calls to the engine", async () => {
		await sandboxes.create("warm", { image });
		const { connectEngine } = await import("../../src/engine/docker-engine.js");
		const engine = connectEngine();
		const calls: string[] = [];
		const counting = new Proxy(engine, {
			get(target, key) {
				const member: unknown = Reflect.get(target, key, target);
				if (typeof member !== "function") return member;
				return (...args: unknown[]) => {
					calls.push(String(key));
					return Reflect.apply(member, target, args);
				};
			},
		});
		const counted = fleet.again({ engine: counting });
		await counted.create("warm", { image });
		calls.length = 0;
		const before = snapshotOf(fleet.root);
		expect((await counted.create("warm", { image })).outcome).toBe("served");
		expect(calls.length).toBeLessThanOrEqual(2);
		expect(snapshotOf(fleet.root)).toEqual(before);
	});

	test("environment, labels and grace change without a new container; the newest stated stay", async () => {
		const first = await sandboxes.create("adjust", { image, env: { A: "1" }, labels: { team: "x" } });
		expect((await first.exec("echo $A")).stdout).toBe("1\n");
		const second = await sandboxes.create("adjust", { image, env: { B: "2" }, stopGraceMs: 1234 });
		expect([second.id, second.outcome]).toEqual([first.id, "served"]);
		expect((await first.exec("echo [$A][$B]")).stdout).toBe("[][2]\n");
		await sandboxes.create("adjust", { image });
		expect((await second.exec("echo $B")).stdout).toBe("2\n");
		const [info] = (await sandboxes.list()).filter(({ name }) => name === "adjust");
		expect(info).toMatchObject({ labels: { team: "x" }, stopGraceMs: 1234 });
		expect(await docker("inspect", first.id)).not.toMatch(/"B=2"|"A=1"/);
		expect(statSync(join(fleet.root, "ledger.jsonl")).mode & 0o777).toBe(0o600);
	});
});

describe("replace", () => {
	test("removes container and workspace, builds clean, and is recorded nowhere", async () => {
		const first = await sandboxes.create("clean", { image });
		await first.exec("echo old > f; echo h > ~/h");
		const second = await sandboxes.create("clean", { image, replace: true });
		expect(second).toMatchObject({ outcome: "replaced", created: true, reasons: [{ kind: "replace" }] });
		expect((await second.exec("ls -A . ~")).stdout).not.toMatch(/\bf\b|\bh\b/);
		expect(existsSync(first.workspaceDir)).toBe(false);
		expect((await sandboxes.create("clean", { image })).id).toBe(second.id);
		expect(JSON.stringify(await sandboxes.list())).not.toContain("replace");
		expect(readFileSync(join(fleet.root, "ledger.jsonl"), "utf8")).not.toContain('replace"');
		expect(await docker("inspect", second.id)).not.toContain("replace");
	});

	test("works where nothing is", async () => {
		expect(await sandboxes.create("clean-new", { image, replace: true })).toMatchObject({
			outcome: "created",
			created: true,
		});
	});
});

describe("plan", () => {
	test("says what create would do and does nothing", async () => {
		const before = await fleet.containers();
		expect(await sandboxes.plan("planned", { image })).toMatchObject({
			action: "create",
			because: ["there is none yet"],
		});
		await sandboxes.create("planned2", { image });
		expect(await sandboxes.plan("planned2", { image })).toMatchObject({ action: "serve", reasons: [], because: [] });
		const more = await sandboxes.plan("planned2", { image, memory: GiB(1), network: "none" });
		expect(more.action).toBe("rebuild");
		expect(more.because).toEqual([
			"memoryBytes 512 MiB is less than the asked 1 GiB (capacity)",
			"network bridge is not the asked none (identity)",
		]);
		expect((await fleet.containers()).length).toBe(before.length + 1);
		expect((await sandboxes.plan("planned2", { image, replace: true })).action).toBe("replace");
		expect((await sandboxes.plan("planned", { runtime: "media" })).action).toBe("create");
	});
});

describe("stop and start", () => {
	test("a stopped one is started with what was installed in it (T23)", async () => {
		const first = await sandboxes.create("stopped", { image });
		await first.exec("echo x > /tmp/installed; echo y > y");
		await first.exec("echo z > /usr/local/z", { user: "root" });
		await first.stop();
		expect((await sandboxes.list()).find(({ name }) => name === "stopped")?.state).toBe("exited");
		expect(await codeOf(first.exec("true"))).toBe("stopped");
		await first.stop();
		const [made] = await runProcess<Made[]>("create-in-process.ts", [fleet.root, fleet.prefix, "stopped"]);
		expect(made).toMatchObject({ id: first.id, outcome: "started" });
		expect((await first.exec("cat /tmp/installed y /usr/local/z")).stdout).toBe("x\ny\nz\n");
	});

	test("a paused one is let go on", async () => {
		const first = await sandboxes.create("paused", { image });
		await docker("pause", first.id);
		const second = await sandboxes.create("paused", { image });
		expect([second.id, second.outcome]).toEqual([first.id, "started"]);
		expect((await second.exec("echo on")).stdout).toBe("on\n");
		await docker("pause", first.id);
		await second.stop();
		expect((await sandboxes.list()).find(({ name }) => name === "paused")?.state).toBe("exited");
	});

	test("commands in flight are told to end, and a stubborn one costs no more than the grace (T31)", async () => {
		const box = await sandboxes.create("told", { image, stopGraceMs: 5000 });
		const running = box
			.exec("trap 'echo bye > bye; exit' TERM; while :; do sleep 0.2; done")
			.catch((error: unknown) => error);
		await box.exec("while ! grep -qs bye /proc/[0-9]*/cmdline; do sleep 0.05; done; sleep 0.3");
		await box.stop();
		// It ends by itself, told to; whether its last status still comes through is up to the moment.
		const end = await running;
		if (isSandboxError(end)) expect(["stopped", "exec_lost"]).toContain(end.code);
		else expect(end).toMatchObject({ timedOut: false });
		expect(readFileSync(join(box.workspaceDir, "bye"), "utf8")).toBe("bye\n");
		const again = await sandboxes.create("told", { image, stopGraceMs: 1000 });
		const stubborn = again.exec("trap '' TERM; while :; do sleep 1; done").catch((error: unknown) => error);
		await again.exec("sleep 0.5");
		const start = performance.now();
		await again.stop();
		expect(performance.now() - start).toBeLessThan(3000 + 5000);
		expect(isSandboxError(await stubborn)).toBe(true);
	});
});

describe("what others did behind our back", () => {
	test("a container removed by hand: listed as missing, the old handle says gone, create rebuilds over the workspace (T24)", async () => {
		const first = await sandboxes.create("behind", { image });
		await first.exec("echo kept > f");
		await docker("rm", "-f", first.id);
		expect((await sandboxes.list()).find(({ name }) => name === "behind")).toMatchObject({
			state: "missing",
			id: null,
		});
		expect(await codeOf(first.exec("true"))).toBe("gone");
		await first.stop();
		expect(await codeOf(sandboxes.get("behind"))).toBe("not_found");
		const second = await sandboxes.create("behind", { image });
		expect(second.id).not.toBe(first.id);
		expect(second.outcome).toBe("created");
		expect((await second.exec("cat f")).stdout).toBe("kept\n");
		expect(await sandboxes.remove("behind")).toBe(true);
		expect(existsSync(first.workspaceDir)).toBe(false);
	});

	test("a workspace alone counts as something to remove", async () => {
		const box = await sandboxes.create("alone", { image });
		await docker("rm", "-f", box.id);
		expect(await sandboxes.remove("alone")).toBe(true);
		expect(await sandboxes.remove("alone")).toBe(false);
	});

	test("after remove the old handle says gone, and nothing is recreated (T30)", async () => {
		const box = await sandboxes.create("ended", { image });
		const flying = box.exec("sleep 30").catch((error: unknown) => error);
		await box.exec("true");
		expect(await sandboxes.remove("ended")).toBe(true);
		expect(isSandboxError(await flying, "gone")).toBe(true);
		expect(await codeOf(box.exec("true"))).toBe("gone");
		await box.stop();
		expect((await sandboxes.list()).some(({ name }) => name === "ended")).toBe(false);
		expect(existsSync(box.workspaceDir)).toBe(false);
		await sandboxes.create("ended", { image });
		expect(await codeOf(box.exec("true"))).toBe("gone");
	});

	test("a foreign container with the name is never touched, and the call says conflict", async () => {
		const name = `${fleet.prefix}-foreign`;
		const id = await docker("create", "--name", name, image, "true");
		try {
			expect(await codeOf(sandboxes.create("foreign", { image }))).toBe("conflict");
			expect(await codeOf(sandboxes.create("foreign", { image, replace: true }))).toBe("conflict");
			expect(await codeOf(sandboxes.plan("foreign", { image }))).toBe("conflict");
			expect(await sandboxes.remove("foreign")).toBe(false);
			expect((await sandboxes.list()).some((info) => info.name === "foreign")).toBe(false);
			expect(await docker("inspect", "--format", "{{.Id}}", name)).toBe(id);
		} finally {
			await docker("rm", "-f", id);
		}
	});

	test("two prefixes that want one container name: the second is refused, neither touches the other's", async () => {
		const a = fleet.again({ prefix: `${fleet.prefix}` });
		const b = fleet.again({ prefix: `${fleet.prefix}-x` });
		const first = await a.create("x-w", { image });
		expect(await codeOf(b.create("w", { image }))).toBe("conflict");
		expect(await b.remove("w")).toBe(false);
		expect((await b.list()).length).toBe(0);
		expect((await first.exec("echo alive")).stdout).toBe("alive\n");
		await a.remove("x-w");
		const second = await b.create("w", { image });
		expect(await codeOf(a.create("x-w", { image }))).toBe("conflict");
		expect(await b.removeAll()).toBe(1);
		expect(await codeOf(second.exec("true"))).toBe("gone");
	});

	test("a container with labels that cannot be read is listed with its problem, and rebuilt", async () => {
		const first = await sandboxes.create("labels", { image });
		const labels = JSON.parse(await docker("inspect", "--format", "{{json .Config.Labels}}", first.id)) as Record<
			string,
			string
		>;
		await first.exec("echo kept > f");
		await docker("rm", "-f", first.id);
		const args = Object.entries({ ...labels, "sandboxes.shape": "{broken" }).flatMap(([key, value]) => [
			"--label",
			`${key}=${value}`,
		]);
		await docker("run", "-d", "--name", `${fleet.prefix}-labels`, ...args, image, "sleep", "1000");
		expect((await sandboxes.list()).find(({ name }) => name === "labels")?.problem).toMatch(/shape/);
		const second = await sandboxes.create("labels", { image });
		expect(second.reasons).toMatchObject([{ kind: "labels" }]);
		expect((await second.exec("cat f")).stdout).toBe("kept\n");
	});

	test("a rebuild that was cut short between its steps is finished by the next create", async () => {
		const old = await sandboxes.create("cut", { image });
		await old.exec("echo kept > f");
		const next = await sandboxes.create("cut", { image, memory: GiB(1) });
		await docker("rename", next.id, `${fleet.prefix}-cut_NEXT-000000000000`);
		await docker("stop", "-t", "0", next.id);
		const found = await fleet.again().create("cut", { image, memory: GiB(1) });
		expect([found.id, found.outcome]).toEqual([next.id, "started"]);
		expect((await fleet.containers()).filter(({ name }) => name.includes("-cut"))).toMatchObject([
			{ name: `${fleet.prefix}-cut`, state: "running" },
		]);
	});
});

describe("many at once", () => {
	test("20 concurrent creates in one process give one container (T22)", async () => {
		const boxes = await Promise.all(Array.from({ length: 20 }, () => sandboxes.create("crowd", { image })));
		expect(new Set(boxes.map(({ id }) => id)).size).toBe(1);
		expect(boxes.filter(({ created }) => created).length).toBe(1);
		expect((await fleet.containers()).filter(({ name }) => name === `${fleet.prefix}-crowd`).length).toBe(1);
	});

	test("8 processes at once give one container and one id", async () => {
		const made = await Promise.all(
			Array.from({ length: 8 }, () =>
				runProcess<Made[]>("create-in-process.ts", [fleet.root, fleet.prefix, "processes"]),
			),
		);
		const all = made.flat();
		expect(new Set(all.map(({ id }) => id)).size).toBe(1);
		expect(all.filter(({ outcome }) => outcome === "created").length).toBe(1);
		expect((await fleet.containers()).filter(({ name }) => name === `${fleet.prefix}-processes`).length).toBe(1);
	});

	test("mixed sizes at once end in one container that serves the larger", async () => {
		const boxes = await Promise.all(
			Array.from({ length: 10 }, (_, index) =>
				sandboxes.create("mixed", { image, memory: MiB(index % 2 ? 256 : 512) }),
			),
		);
		for (const box of boxes) {
			const code = await codeOf(box.exec("true"));
			expect([undefined, "gone"]).toContain(code);
		}
		expect((await sandboxes.plan("mixed", { image, memory: MiB(512) })).action).toBe("serve");
		expect((await fleet.containers()).filter(({ name }) => name.includes("-mixed")).length).toBe(1);
	});

	test("creates and removes at once all settle without a raw error", async () => {
		const work = Array.from({ length: 13 }, (_, index) =>
			index % 4 === 3 ? sandboxes.remove("churn") : sandboxes.create("churn", { image }),
		);
		for (const result of await Promise.allSettled(work)) {
			if (result.status === "rejected") expect(isSandboxError(result.reason)).toBe(true);
		}
		const left = (await fleet.containers()).filter(({ name }) => name.includes("-churn"));
		expect(left.length).toBeLessThanOrEqual(1);
		await sandboxes.remove("churn");
	});

	test("10 processes that create and remove different names leave rows for exactly what exists, and no stray file (T34)", async () => {
		const own = makeFleet();
		try {
			const [workers, creates, removes] = [10, 5, 2];
			const words = (worker: number): string[] => [
				own.root,
				own.prefix,
				String(worker),
				String(creates),
				String(removes),
			];
			let reading = true;
			const reader = (async () => {
				while (reading) {
					const infos = await own.sandboxes.list();
					expect(new Set(infos.map(({ name }) => name)).size).toBe(infos.length);
					await new Promise((resolve) => setTimeout(resolve, 100));
				}
			})();
			const ended = await Promise.all(
				Array.from({ length: workers }, (_, worker) =>
					runProcess<{ failures: string[] }>("many-in-process.ts", words(worker)),
				),
			);
			reading = false;
			await reader;
			expect(ended.flatMap(({ failures }) => failures)).toEqual([]);
			const expected = Array.from({ length: workers }, (_, worker) =>
				Array.from({ length: creates - removes }, (_unused, index) => `n${worker}-${index + removes}`),
			).flat();
			const listed = await own.again().list();
			expect(listed.map(({ name }) => name)).toEqual(expected.sort());
			expect(listed.every(({ state }) => state === "running")).toBe(true);
			const files = readdirSync(own.root);
			expect(files.filter((name) => /tmp|new|lock$|damaged/.test(name))).toEqual([]);
			expect(readdirSync(join(own.root, "workspaces")).length).toBe(expected.length);
			expect(await own.sandboxes.removeAll()).toBe(expected.length);
		} finally {
			await own.dispose();
		}
	});

	test("list never fails while others create and remove (T33)", async () => {
		let busy = true;
		const other = fleet.again();
		const churn = (async () => {
			for (let round = 0; round < 4; round++) {
				await Promise.all(["l0", "l1", "l2"].map((name) => other.create(name, { image, network: "none" })));
				await Promise.all(["l0", "l1", "l2"].map((name) => other.remove(name)));
			}
			busy = false;
		})();
		let lists = 0;
		while (busy) {
			const infos = await sandboxes.list();
			expect(new Set(infos.map(({ name }) => name)).size).toBe(infos.length);
			lists += 1;
			await new Promise((resolve) => setTimeout(resolve, 5));
		}
		await churn;
		expect(lists).toBeGreaterThan(20);
	});
});

describe("failures leave nothing", () => {
	test("an image whose start fails: a typed error, no container or workspace left, the next try works (T27)", async () => {
		const tag = `sandboxes-test-empty:${fleet.prefix}`;
		const { execFileSync } = await import("node:child_process");
		execFileSync("docker", ["import", "-", tag], { input: Buffer.alloc(10_240) });
		try {
			const before = fleet.directories();
			expect(await codeOf(sandboxes.create("badstart", { image: tag }))).toMatch(/engine_failed|unsupported/);
			expect((await fleet.containers()).some(({ name }) => name.includes("badstart"))).toBe(false);
			expect(fleet.directories()).toEqual(before);
			expect((await sandboxes.list()).some(({ name }) => name === "badstart")).toBe(false);
			expect((await sandboxes.create("badstart", { image })).outcome).toBe("created");
		} finally {
			await docker("rmi", "-f", tag);
		}
	});

	test("a rebuild that cannot start leaves the old container running and the workspace as it was", async () => {
		const holder = await sandboxes.create("holder", { image, ports: [{ port: 80, hostPort: 48_123 }] });
		const box = await sandboxes.create("survivor", { image });
		await box.exec("echo kept > f");
		expect(await codeOf(sandboxes.create("survivor", { image, ports: [{ port: 80, hostPort: 48_123 }] }))).toBe(
			"engine_failed",
		);
		expect((await sandboxes.get("survivor")).id).toBe(box.id);
		expect((await box.exec("cat f")).stdout).toBe("kept\n");
		expect((await sandboxes.create("survivor", { image })).id).toBe(box.id);
		expect((await fleet.containers()).filter(({ name }) => name.includes("survivor")).length).toBe(1);
		expect(holder.ports).toMatchObject([{ port: 80, hostPort: 48_123, hostIp: "127.0.0.1" }]);
	});

	test("an abort rejects with the caller's own reason and leaves nothing", async () => {
		const reason = new Error("mine");
		const controller = new AbortController();
		const made = sandboxes.create("aborted", { image, signal: controller.signal });
		controller.abort(reason);
		await expect(made).rejects.toBe(reason);
		await expect(sandboxes.create("aborted", { image, signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
		expect((await fleet.containers()).some(({ name }) => name.includes("aborted"))).toBe(false);
	});

	test("removeAll goes on past one that fails and names it (T28)", async () => {
		const own = makeFleet();
		try {
			await own.sandboxes.create("a", { image, network: "none" });
			await own.sandboxes.create("b", { image, network: "none" });
			await own.sandboxes.create("c", { image, network: "none" });
			const { connectEngine } = await import("../../src/engine/docker-engine.js");
			const engine = connectEngine();
			const failing = (await own.sandboxes.get("b")).id;
			const broken = new Proxy(engine, {
				get(target, key) {
					const member: unknown = Reflect.get(target, key, target);
					if (typeof member !== "function") return member;
					return (...args: unknown[]) => {
						if (key === "removeContainer" && args[0] === failing) return Promise.reject(new Error("it is held"));
						return Reflect.apply(member, target, args);
					};
				},
			});
			const error = await own
				.again({ engine: broken })
				.removeAll()
				.catch((thrown: unknown) => thrown);
			expect(isSandboxError(error, "release_failed") && error.details).toMatchObject({
				removed: expect.arrayContaining(["a", "c"]),
				failed: [{ name: "b", error: "it is held" }],
			});
			expect((await own.sandboxes.list()).map(({ name }) => name)).toEqual(["b"]);
			expect(await own.sandboxes.removeAll()).toBe(1);
			expect(await own.sandboxes.removeAll()).toBe(0);
		} finally {
			await own.dispose();
		}
	});
});

describe("a damaged ledger (T35)", () => {
	test.each([
		["cut to nothing", ""],
		["blank", "\n \n"],
		["null", "null"],
		["a list", "[]"],
		["an object", "{}"],
	])("%s: the sandbox is found again by its labels, and later writes hold", async (_title, text) => {
		const own = makeFleet();
		try {
			const box = await own.sandboxes.create("live", { image, network: "none" });
			await box.exec("echo kept > f");
			const path = join(own.root, "ledger.jsonl");
			truncateSync(path);
			writeFileSync(path, text);
			const after = own.again();
			expect((await after.list()).map(({ name, state }) => [name, state])).toEqual([["live", "running"]]);
			expect((await after.create("live", { image, network: "none" })).id).toBe(box.id);
			expect((await (await after.get("live")).exec("cat f")).stdout).toBe("kept\n");
			expect((await after.create("new", { image, network: "none" })).outcome).toBe("created");
			expect(await own.sandboxes.remove("live")).toBe(true);
			expect((await own.again().list()).map(({ name }) => name)).toEqual(["new"]);
		} finally {
			await own.dispose();
		}
	});

	test("deleted: containers and workspaces are found again", async () => {
		const own = makeFleet();
		try {
			const box = await own.sandboxes.create("live", { image, network: "none" });
			const dir = await own.sandboxes.workspaceDir("reserved");
			writeFileSync(join(dir, "seed"), "seed");
			const { rmSync } = await import("node:fs");
			rmSync(join(own.root, "ledger.jsonl"));
			expect((await own.again().list()).map(({ name, state }) => [name, state])).toEqual([
				["live", "running"],
				["reserved", "missing"],
			]);
			const reserved = await own.again().create("reserved", { image, network: "none" });
			expect((await reserved.exec("cat seed")).stdout).toBe("seed");
			expect((await own.again().create("live", { image, network: "none" })).id).toBe(box.id);
		} finally {
			await own.dispose();
		}
	});
});

describe("names", () => {
	test("accepted ones are apart from one another, refused ones leave nothing (T29)", async () => {
		const names = ["foo.bar", "foo-bar", "foo_bar", "con", "constructor", "node_modules", "a".repeat(63)];
		const boxes = await Promise.all(names.map((name) => sandboxes.create(name, { image, network: "none" })));
		expect(new Set(boxes.map(({ id }) => id)).size).toBe(names.length);
		expect(new Set(boxes.map(({ workspaceDir }) => workspaceDir)).size).toBe(names.length);
		const listed = new Set((await sandboxes.list()).map(({ name }) => name));
		for (const name of names) expect(listed.has(name)).toBe(true);
		for (const name of ["UP", ".x", "__proto__", "a/b", "", "é"]) {
			for (const call of [
				sandboxes.create(name),
				sandboxes.get(name),
				sandboxes.remove(name),
				sandboxes.workspaceDir(name),
				sandboxes.plan(name),
			]) {
				expect(await codeOf(call)).toBe("invalid_input");
			}
		}
		await Promise.all(names.map((name) => sandboxes.remove(name)));
	});

	test("the link under names leads to the workspace", async () => {
		const box = await sandboxes.create("linked", { image });
		const link = join(fleet.root, "names", fleet.prefix, "linked");
		expect(lstatSync(link).isSymbolicLink()).toBe(true);
		expect(join(link, "..", readlinkSync(link))).toBe(box.workspaceDir);
		await sandboxes.remove("linked");
		expect(readdirSync(join(link, ".."))).not.toContain("linked");
	});
});

test("workspaceDir before the first create gives the directory that it will use", async () => {
	const dir = await sandboxes.workspaceDir("seeded");
	writeFileSync(join(dir, "seed"), "seed");
	expect((await sandboxes.list()).find(({ name }) => name === "seeded")?.state).toBe("missing");
	const box = await sandboxes.create("seeded", { image });
	expect(box.workspaceDir).toBe(dir);
	expect((await box.exec("cat seed && echo more >> seed && touch mine")).exitCode).toBe(0);
	expect(await sandboxes.workspaceDir("seeded")).toBe(dir);
});

test("a workspace that is gone from the host is a reason to rebuild, never a box over nothing", async () => {
	const { rmSync } = await import("node:fs");
	const box = await sandboxes.create("gone-dir", { image });
	rmSync(box.workspaceDir, { recursive: true });
	expect(await codeOf(box.exec("true"))).toBe("bad_cwd");
	const again = await sandboxes.create("gone-dir", { image });
	expect(again).toMatchObject({ outcome: "rebuilt", reasons: [{ kind: "workspace" }] });
	expect((await again.exec("touch f && ls")).stdout).toBe("f\n");
});

test("created says that the workspace is new, and nothing else", async () => {
	const box = await sandboxes.create("fresh", { image });
	expect(box.created).toBe(true);
	await box.exec("echo data > f");
	await docker("rm", "-f", box.id);
	expect(await sandboxes.create("fresh", { image })).toMatchObject({ outcome: "created", created: false });
	expect(await sandboxes.create("fresh", { image, replace: true })).toMatchObject({
		outcome: "replaced",
		created: true,
	});
});

test("a root that lost its id, both copies, is a new one: its containers are no longer its own, and the event says so", async () => {
	const { rmSync } = await import("node:fs");
	const own = makeFleet();
	try {
		const box = await own.sandboxes.create("w", { image, network: "none" });
		for (const file of ["id", "id.copy"]) rmSync(join(own.root, file));
		const events: string[] = [];
		const after = own.again({ onEvent: (event) => events.push(event.type) });
		expect((await after.list()).map(({ state }) => state)).toEqual(["missing"]);
		expect(events).toContain("root_renewed");
		expect(await codeOf(after.create("w", { image }))).toBe("conflict");
		await docker("rm", "-f", box.id);
	} finally {
		await own.dispose();
	}
});

test("on a full disk a sandbox can still be removed", async () => {
	const { execFileSync } = await import("node:child_process");
	if (process.getuid?.() !== 0) return;
	const { mkdtempSync, rmSync } = await import("node:fs");
	const { tmpdir } = await import("node:os");
	const home = mkdtempSync(join(tmpdir(), "sandboxes-test-full-"));
	execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "none", home]);
	const own = makeFleet({ root: join(home, "root") });
	try {
		const box = await own.sandboxes.create("full", { image, network: "none" });
		await box.exec("cat /dev/zero > big");
		expect(await codeOf(own.sandboxes.create("another", { image, network: "none" }))).toMatch(
			/ledger_unreadable|workspace_unusable/,
		);
		expect((await own.containers()).length).toBe(1);
		expect(await own.sandboxes.remove("full")).toBe(true);
		expect(await own.containers()).toEqual([]);
		expect((await own.sandboxes.create("another", { image, network: "none" })).outcome).toBe("created");
	} finally {
		await own.dispose();
		execFileSync("umount", ["-l", home]);
		rmSync(home, { recursive: true, force: true });
	}
});

test("a stream that fails before it is read ends the call and not the process", async () => {
	const { createReadStream } = await import("node:fs");
	const box = await sandboxes.create("stdin", { image });
	const failure = await box
		.exec("cat", { stdin: createReadStream("/nonexistent/file") })
		.catch((error: unknown) => error);
	expect(String(failure)).toMatch(/ENOENT/);
	expect((await box.exec("echo on")).stdout).toBe("on\n");
});

test("get gives whatever is there and never starts it", async () => {
	await sandboxes.create("got", { image, memory: MiB(128) });
	await sandboxes.stop("got");
	const box = await sandboxes.get("got");
	expect(await codeOf(box.exec("true"))).toBe("stopped");
	expect(await sandboxes.find("nowhere")).toBeUndefined();
	expect(await codeOf(sandboxes.get("nowhere"))).toBe("not_found");
});

test("a handle leaves its block without ending the sandbox", async () => {
	let id = "";
	{
		await using box = await sandboxes.create("block", { image });
		id = box.id;
	}
	expect((await sandboxes.create("block", { image })).id).toBe(id);
});

test("a root with blanks, colons, commas, quotes and letters beyond ASCII works (T20)", async () => {
	const { mkdtempSync, rmSync } = await import("node:fs");
	const { tmpdir } = await import("node:os");
	const home = mkdtempSync(join(tmpdir(), 'sandboxes-test r o:o,t "é-'));
	const own = makeFleet({ root: join(home, 'a b:c,d "é') });
	try {
		const box = await own.sandboxes.create("odd", { image });
		await box.exec("echo 1 > f");
		expect(readFileSync(join(box.workspaceDir, "f"), "utf8")).toBe("1\n");
		expect(await own.sandboxes.remove("odd")).toBe(true);
	} finally {
		await own.dispose();
		rmSync(home, { recursive: true, force: true });
	}
});

function snapshotOf(root: string): string[] {
	return (readdirSync(root, { recursive: true }) as string[]).sort().map((path) => {
		const stat = lstatSync(join(root, path));
		return `${path} ${stat.size} ${stat.mtimeMs} ${stat.ctimeMs}`;
	});
}

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Decision, decide, type Observed } from "../../../src/sandboxes/decide.js";
import { mismatches, RULES, SHAPE_FIELDS, type Shape } from "../../../src/sandboxes/shape.js";
import { baseShape, containerArbitrary, IMAGE_B, observed, shapeArbitrary } from "../../support/shapes.js";

const NOW = 1_000_500;
const nothing: Observed = { ours: [], foreign: undefined };
const foreign = { id: "f1", containerName: "sbx-w", owner: "a container that was not made here" };

function one(container = observed()): Observed {
	return { ours: [container], foreign: undefined };
}

function act(have: Partial<Shape>, want: Partial<Shape>, nowMs = NOW): Decision {
	return decide(
		{ shape: { ...baseShape, ...want }, replace: false },
		one(observed({ shape: { ...baseShape, ...have } })),
		nowMs,
	);
}

const port = (hostPort: number | null = null) => ({
	port: 3000,
	protocol: "tcp" as const,
	hostPort,
	hostIp: "127.0.0.1",
});
const mount = (readOnly = true) => ({ source: "/data", target: "/data", readOnly });

describe("the table of states", () => {
	test.each([
		["running", "serve"],
		["created", "start"],
		["exited", "start"],
		["paused", "start"],
		["restarting", "rebuild"],
		["removing", "rebuild"],
		["dead", "rebuild"],
	] as const)("one that is %s and fits: %s", (state, action) => {
		const decision = decide({ shape: baseShape, replace: false }, one(observed({ state })), NOW);
		expect(decision.action).toBe(action);
		expect(decision.reasons).toEqual(action === "rebuild" ? [{ kind: "state", state }] : []);
	});

	test("nothing there: create", () => {
		expect(decide({ shape: baseShape, replace: false }, nothing, NOW)).toMatchObject({
			action: "create",
			reasons: [{ kind: "absent" }],
		});
	});

	test("unreadable labels: rebuild, whatever the state", () => {
		const container = observed({ recorded: { ok: false, problem: "labels of the later version 9" } });
		expect(decide({ shape: baseShape, replace: false }, one(container), NOW)).toMatchObject({
			action: "rebuild",
			reasons: [{ kind: "labels", problem: "labels of the later version 9" }],
		});
	});

	test("a workspace that is gone from the host: rebuild", () => {
		expect(decide({ shape: baseShape, replace: false }, one(observed({ workspaceThere: false })), NOW)).toMatchObject({
			action: "rebuild",
			reasons: [{ kind: "workspace" }],
		});
	});

	test("replace is asked: replace, whether it fits or not, and where nothing is", () => {
		expect(decide({ shape: baseShape, replace: true }, one(), NOW).action).toBe("replace");
		expect(decide({ shape: baseShape, replace: true }, nothing, NOW).action).toBe("replace");
	});

	test("a foreign container under the name: refuse, replace or not", () => {
		for (const replace of [true, false]) {
			const decision = decide({ shape: baseShape, replace }, { ours: [], foreign }, NOW);
			expect(decision).toMatchObject({ action: "refuse", foreign });
		}
	});

	test("two of ours: the newest by creation, then by id; the others are reported", () => {
		const old = observed({ id: "z", at: 1_000_000 });
		const young = observed({ id: "a", at: 1_000_100 });
		const twin = observed({ id: "b", at: 1_000_100 });
		const decision = decide(
			{ shape: baseShape, replace: false },
			{ ours: [old, young, twin], foreign: undefined },
			NOW,
		);
		expect(decision.container?.id).toBe("b");
		expect(decision.superseded.map((other) => other.id)).toEqual(["a", "z"]);
	});
});

describe("the table of fields", () => {
	const GiB = 1024 ** 3;
	test.each<[string, Partial<Shape>, Partial<Shape>, "serve" | "rebuild"]>([
		["more memory serves less", { memoryBytes: 2 * GiB }, { memoryBytes: GiB / 4 }, "serve"],
		["less memory does not serve more", { memoryBytes: 2 * GiB }, { memoryBytes: 4 * GiB }, "rebuild"],
		["equal memory serves", { memoryBytes: GiB }, { memoryBytes: GiB }, "serve"],
		["more cpus serve", { cpus: 2 }, { cpus: 0.5 }, "serve"],
		["fewer cpus do not", { cpus: 0.5 }, { cpus: 1 }, "rebuild"],
		["more pids serve", { pids: 600 }, { pids: 512 }, "serve"],
		["fewer pids do not", { pids: 500 }, { pids: 512 }, "rebuild"],
		["more shm serves", { shmBytes: GiB }, { shmBytes: 65_536 }, "serve"],
		["less shm does not", { shmBytes: 65_536 }, { shmBytes: GiB }, "rebuild"],
		["a published port serves who asks none", { ports: [port()] }, { ports: [] }, "serve"],
		["a missing port does not serve", { ports: [] }, { ports: [port()] }, "rebuild"],
		["a fixed host port serves who asks any", { ports: [port(8080)] }, { ports: [port()] }, "serve"],
		["any host port does not serve who asks a fixed one", { ports: [port()] }, { ports: [port(8080)] }, "rebuild"],
		["a looser lifetime does not serve a tighter", { maxLifetimeMs: 3_600_000 }, { maxLifetimeMs: 60_000 }, "rebuild"],
		["a tighter lifetime serves a looser", { maxLifetimeMs: 60_000 }, { maxLifetimeMs: 3_600_000 }, "serve"],
		["a lifetime serves who asks no limit", { maxLifetimeMs: 60_000 }, { maxLifetimeMs: 0 }, "serve"],
		["no limit does not serve who asks one", { maxLifetimeMs: 0 }, { maxLifetimeMs: 60_000 }, "rebuild"],
		["no limit serves no limit", { maxLifetimeMs: 0 }, { maxLifetimeMs: 0 }, "serve"],
		["a looser idle limit does not serve", { idleTimeoutMs: 0 }, { idleTimeoutMs: 1000 }, "rebuild"],
		["a tighter idle limit serves", { idleTimeoutMs: 1000 }, { idleTimeoutMs: 0 }, "serve"],
		["another image never serves, however much memory", { memoryBytes: 8 * GiB }, { imageId: IMAGE_B }, "rebuild"],
		["another network does not serve", { network: "bridge" }, { network: "none" }, "rebuild"],
		["no mount does not serve a mount", {}, { mounts: [mount()] }, "rebuild"],
		["a mount does not serve who asks none", { mounts: [mount()] }, {}, "rebuild"],
		["a writable mount is another identity", { mounts: [mount(false)] }, { mounts: [mount()] }, "rebuild"],
		["the same mount serves", { mounts: [mount()] }, { mounts: [mount()] }, "serve"],
		["a read-only root is an identity", { readOnlyRoot: true }, { readOnlyRoot: false }, "rebuild"],
		["another OCI runtime does not serve", { ociRuntime: null }, { ociRuntime: "runsc" }, "rebuild"],
		["another user does not serve", { user: "root" }, { user: "1000:1000" }, "rebuild"],
	])("%s", (_title, have, want, action) => {
		expect(act(have, want).action).toBe(action);
	});

	test("a reason names field, rule, what is there and what was asked", () => {
		expect(act({ memoryBytes: 256 }, { memoryBytes: 512 }).reasons).toEqual([
			{ kind: "shape", field: "memoryBytes", rule: "capacity", have: 256, want: 512 },
		]);
	});

	test("every field of a shape has its place in the table", () => {
		expect([...SHAPE_FIELDS].sort()).toEqual(Object.keys(baseShape).sort());
		expect(Object.keys(RULES).filter((field) => !(field in baseShape))).toEqual(["stopGraceMs", "env", "labels"]);
	});
});

describe("age", () => {
	test("at its own lifetime it is rebuilt, just before it serves", () => {
		const own = { maxLifetimeMs: 10_000 };
		expect(act(own, { maxLifetimeMs: 0 }, 1_000_000 + 9_999).action).toBe("serve");
		expect(act(own, { maxLifetimeMs: 0 }, 1_000_000 + 10_000).reasons).toEqual([
			{ kind: "expired", ageMs: 10_000, limitMs: 10_000 },
		]);
	});

	test("at the asked lifetime it is rebuilt, though no sweep has run", () => {
		expect(act({ maxLifetimeMs: 5000 }, { maxLifetimeMs: 8000 }, 1_000_000 + 6000).reasons).toContainEqual(
			expect.objectContaining({ kind: "expired" }),
		);
	});

	test("a clock that went back makes nothing older", () => {
		expect(act({}, {}, 0).action).toBe("serve");
	});
});

describe("laws", () => {
	const world = fc.record({
		shape: shapeArbitrary,
		replace: fc.boolean(),
		ours: fc.array(containerArbitrary, { maxLength: 3 }),
		nowMs: fc.integer({ min: 0, max: 200_000 }),
	});

	test("deciding again after the decision was carried out says serve", () => {
		fc.assert(
			fc.property(world, ({ shape, replace, ours, nowMs }) => {
				const decision = decide({ shape, replace }, { ours, foreign: undefined }, nowMs);
				const kept = decision.action === "serve" || decision.action === "start";
				const after =
					kept && decision.container
						? { ...decision.container, state: "running" as const }
						: observed({ shape, at: nowMs, id: "new" });
				expect(decide({ shape, replace: false }, one(after), nowMs).action).toBe("serve");
			}),
		);
	});

	test("reasons are empty exactly for serve and start", () => {
		fc.assert(
			fc.property(world, ({ shape, replace, ours, nowMs }) => {
				const { action, reasons } = decide({ shape, replace }, { ours, foreign: undefined }, nowMs);
				expect(reasons.length === 0).toBe(action === "serve" || action === "start");
			}),
		);
	});

	test("the order of containers and of ports and mounts does not matter", () => {
		fc.assert(
			fc.property(world, ({ shape, replace, ours, nowMs }) => {
				const unique = [...new Map(ours.map((container) => [container.id, container])).values()];
				const turned: Shape = { ...shape, ports: [...shape.ports].reverse(), mounts: [...shape.mounts].reverse() };
				const a = decide({ shape, replace }, { ours: unique, foreign: undefined }, nowMs);
				const b = decide({ shape: turned, replace }, { ours: [...unique].reverse(), foreign: undefined }, nowMs);
				expect(b.action).toBe(a.action);
				expect(b.container?.id).toBe(a.container?.id);
				expect(b.superseded.map((c) => c.id)).toEqual(a.superseded.map((c) => c.id));
			}),
		);
	});

	test("what serves a request serves every smaller one", () => {
		const smaller = (shape: Shape): Shape => ({
			...shape,
			memoryBytes: Math.floor(shape.memoryBytes / 2),
			cpus: shape.cpus / 2,
			pids: shape.pids - 1,
			shmBytes: Math.floor(shape.shmBytes / 2),
			ports: shape.ports.slice(1),
			maxLifetimeMs: shape.maxLifetimeMs === 0 ? 0 : shape.maxLifetimeMs * 2,
			idleTimeoutMs: shape.idleTimeoutMs === 0 ? 0 : 0,
		});
		const larger = (shape: Shape, by: number): Shape => ({
			...shape,
			memoryBytes: shape.memoryBytes * (1 + by),
			cpus: shape.cpus + by,
			pids: shape.pids + by,
			shmBytes: shape.shmBytes * (1 + by),
			maxLifetimeMs: shape.maxLifetimeMs === 0 ? by * 1000 : Math.ceil(shape.maxLifetimeMs / (1 + by)),
		});
		fc.assert(
			fc.property(shapeArbitrary, fc.integer({ min: 0, max: 5 }), (want, by) => {
				const have = larger(want, by);
				expect(mismatches(have, want)).toEqual([]);
				expect(mismatches(have, smaller(want))).toEqual([]);
			}),
		);
		fc.assert(fc.property(shapeArbitrary, (shape) => void expect(mismatches(shape, smaller(shape))).toEqual([])));
	});

	test("a shape always serves itself", () => {
		fc.assert(fc.property(shapeArbitrary, (shape) => void expect(mismatches(shape, shape)).toEqual([])));
	});

	test("serving is transitive", () => {
		fc.assert(
			fc.property(shapeArbitrary, shapeArbitrary, shapeArbitrary, (a, b, c) => {
				const identity = {
					imageId: a.imageId,
					network: a.network,
					mounts: a.mounts,
					readOnlyRoot: a.readOnlyRoot,
					ociRuntime: a.ociRuntime,
					user: a.user,
				};
				const [x, y, z] = [a, { ...b, ...identity }, { ...c, ...identity }];
				if (mismatches(x, y).length === 0 && mismatches(y, z).length === 0) expect(mismatches(x, z)).toEqual([]);
			}),
			{ numRuns: 3000 },
		);
	});
});

import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { isSandboxError } from "../../../src/primitives/errors.js";
import { GiB, MiB } from "../../../src/primitives/units.js";
import { UNPRIVILEGED_ID } from "../../../src/sandboxes/defaults.js";
import {
	normaliseCall,
	normaliseCreate,
	normaliseDefaults,
	type RequestContext,
} from "../../../src/sandboxes/request.js";

const home = realpathSync(mkdtempSync(join(tmpdir(), "sandboxes-request-")));
const root = join(home, "root");
mkdirSync(join(root, "workspaces"), { recursive: true });
mkdirSync(join(home, "data"));
mkdirSync(join(home, "engine"));
symlinkSync("/", join(home, "slash"));
symlinkSync(root, join(home, "to-root"));
symlinkSync(join(home, "data"), join(home, "to-data"));
afterAll(() => rmSync(home, { recursive: true }));

const context: RequestContext = {
	defaults: {},
	caller: { uid: 1000, gid: 1001 },
	guarded: { root, engineSocket: join(home, "engine", "docker.sock") },
};
const normalise = (options: unknown, name: unknown = "w") => normaliseCreate(name, options, context);

describe("defaults", () => {
	test("an option left out takes its default before the decision", () => {
		expect(normalise({})).toMatchObject({
			name: "w",
			image: { runtime: "node" },
			shape: {
				memoryBytes: MiB(512),
				cpus: 1,
				pids: 512,
				shmBytes: MiB(64),
				maxLifetimeMs: 3_600_000,
				idleTimeoutMs: 300_000,
				network: "bridge",
				ports: [],
				mounts: [],
				readOnlyRoot: false,
				ociRuntime: null,
				user: "1000:1001",
			},
			stated: {},
			fallback: { stopGraceMs: 10_000, env: {}, labels: {} },
			replace: false,
		});
	});

	test("undefined is left out", () => {
		expect(normalise({ memory: undefined, env: undefined, runtime: undefined })).toEqual(normalise({}));
		expect(normalise(undefined)).toEqual(normalise({}));
	});

	test("browser has more memory and shared memory", () => {
		expect(normalise({ runtime: "browser" }).shape).toMatchObject({ memoryBytes: GiB(1), shmBytes: MiB(512) });
	});

	test("the constructor's defaults come before the library's and after the call's", () => {
		const defaults = normaliseDefaults({ memory: MiB(256), pids: 100 });
		const request = normaliseCreate("w", { pids: 200 }, { ...context, defaults });
		expect(request.shape).toMatchObject({ memoryBytes: MiB(256), pids: 200 });
	});

	test("a caller who is root gets an unprivileged user, unless root is said", () => {
		const asRoot = { ...context, caller: { uid: 0, gid: 0 } };
		expect(normaliseCreate("w", {}, asRoot).shape.user).toBe(`${UNPRIVILEGED_ID}:${UNPRIVILEGED_ID}`);
		expect(normaliseCreate("w", { user: "root" }, asRoot).shape.user).toBe("root");
	});

	test("the request is frozen through and through, and a copy", () => {
		const env = { A: "1" };
		const request = normalise({ env, ports: [80] });
		env.A = "2";
		expect(request.stated.env).toEqual({ A: "1" });
		expect(Object.isFrozen(request.shape.ports[0])).toBe(true);
		expect(Object.isFrozen(request.stated.env)).toBe(true);
	});

	test("replace leaves no trace in what is recorded", () => {
		const { replace: _a, ...plain } = normalise({});
		const { replace: _b, ...replaced } = normalise({ replace: true });
		expect(replaced).toEqual(plain);
	});
});

describe("refusals, before any effect", () => {
	test.each<[string, unknown, RegExp]>([
		[
			"a memory of 1 byte",
			{ memory: 1 },
			/memory: expected an integer number of bytes from 6291456 .* got 1 \(number\); use MiB\(512\)/,
		],
		["no memory", { memory: 0 }, /memory/],
		["negative memory", { memory: -1 }, /memory/],
		["NaN memory", { memory: Number.NaN }, /memory/],
		["memory as text", { memory: "512m" }, /memory: .* got "512m" \(string\)/],
		["a memory no machine has", { memory: 1e15 }, /memory/],
		["fractional bytes", { memory: MiB(8) + 0.5 }, /memory/],
		["no cpus", { cpus: 0 }, /cpus/],
		["more cpus than there are", { cpus: availableParallelism() + 1 }, /cpus: expected a number from 0.01 to/],
		["infinite cpus", { cpus: Number.POSITIVE_INFINITY }, /cpus/],
		["too few pids", { pids: 1 }, /pids: expected an integer from 16/],
		["a negative grace", { stopGraceMs: -1 }, /stopGraceMs/],
		["a grace that is no number", { stopGraceMs: Number.NaN }, /stopGraceMs/],
		["a negative lifetime", { maxLifetimeMs: -5 }, /maxLifetimeMs/],
		["an unknown network", { network: "host" }, /network: expected "none" or "bridge"/],
		["an unknown option", { memoryy: 1 }, /unknown option "memoryy"; did you mean "memory"\?/],
		["a snake-case option", { idle_timeout_ms: 1 }, /did you mean "idleTimeoutMs"\?/],
		["runtime and image at once", { runtime: "node", image: "debian" }, /runtime and image exclude each other/],
		["an empty image", { image: "" }, /image: expected an image reference/],
		["a runtime that is no text", { runtime: 3 }, /runtime/],
		["port 0", { ports: [0] }, /ports\[0\]/],
		["port 65536", { ports: [{ port: 65_536 }] }, /ports\[0\].port/],
		["a port that is text", { ports: ["80"] }, /ports\[0\]: expected an object/],
		["a port twice", { ports: [80, { port: 80, hostPort: 8080 }] }, /ports: expected each port once/],
		["ports without a network", { network: "none", ports: [80] }, /ports: expected none with network "none"/],
		["a host address that is none", { ports: [{ port: 80, hostIp: "localhost" }] }, /hostIp/],
		["a host address with a part too many", { ports: [{ port: 80, hostIp: "127.0.0.1.1" }] }, /hostIp/],
		["a host address of letters only", { ports: [{ port: 80, hostIp: "ff" }] }, /hostIp/],
		[
			"a port of the host twice",
			{
				ports: [
					{ port: 80, hostPort: 8080 },
					{ port: 81, hostPort: 8080 },
				],
			},
			/each port of the host once/,
		],
		["another uid than an ordinary caller's", { user: "30000:30000" }, /your own uid 1000/],
		["a uid no engine takes", { user: "3000000000:1" }, /user/],
		["a uid of 0 as number", { user: "0:0" }, /say "root"/],
		["a user by name", { user: "node" }, /user: expected "caller", "root" or "uid:gid"/],
		["an env that is a list", { env: ["A=1"] }, /env: expected an object/],
		["an env name with =", { env: { "A=B": "x" } }, /env name/],
		["an empty env name", { env: { "": "x" } }, /env name/],
		["an env value with NUL", { env: { A: "a\0b" } }, /env.A/],
		["an env value that is a number", { env: { A: 1 } }, /env.A: expected a string/],
		["an env name with a blank", { env: { "A B": "x" } }, /env name/],
		["an env value no command could be given", { env: { A: "x".repeat(140_000) } }, /env.A: expected at most/],
		["a label that is no text", { labels: { a: true } }, /labels.a/],
		["replace as text", { replace: "yes" }, /replace: expected true or false/],
		["a signal that is none", { signal: {} }, /signal: expected an AbortSignal/],
		["an OCI runtime with blanks", { ociRuntime: "a b" }, /ociRuntime/],
		["options that are a list", [], /options: expected an object/],
		["options that are text", "memory", /options: expected an object/],
	])("%s", (_title, options, message) => {
		expect(() => normalise(options)).toThrow(message);
		try {
			normalise(options);
		} catch (error) {
			expect(isSandboxError(error, "invalid_input")).toBe(true);
		}
	});

	test.each<[string, unknown]>([
		["the whole host", "/"],
		["the whole host through a link", join(home, "slash")],
		["/proc", "/proc"],
		["what is below /proc", "/proc/self"],
		["/sys", "/sys"],
		["/dev", "/dev/null"],
		["the root", root],
		["what is below the root", join(root, "workspaces")],
		["what holds the root", home],
		["the root through a link", join(home, "to-root")],
		["what holds the engine's socket", join(home, "engine")],
		["a path that is not there", join(home, "nowhere")],
		["a relative path", "data"],
		["a path with NUL", "/a\0b"],
		["no path", undefined],
	])("mounting %s", (_title, source) => {
		expect(() => normalise({ mounts: [{ source, target: "/data" }] })).toThrow(/mounts\[0\]\.source: expected/);
	});

	test.each([
		"/",
		"/workspace",
		"/workspace/x",
		"/proc/x",
		"/sys",
		"/etc/passwd",
		"/home/sandbox/x",
		"/home",
		"data",
		"/a/../proc",
	])("mounting at %s", (target) => {
		expect(() => normalise({ mounts: [{ source: join(home, "data"), target }] })).toThrow(
			/mounts\[0\]\.target: expected/,
		);
	});

	test("two mounts on one target, or one inside another", () => {
		const source = join(home, "data");
		expect(() =>
			normalise({
				mounts: [
					{ source, target: "/x" },
					{ source, target: "/x/" },
				],
			}),
		).toThrow(/do not overlap/);
		expect(() =>
			normalise({
				mounts: [
					{ source, target: "/x/y" },
					{ source, target: "/x" },
				],
			}),
		).toThrow(/do not overlap/);
	});
});

test("a root or socket that is given through a link is guarded where it really is", () => {
	const linked = {
		...context,
		guarded: { root: join(home, "to-root"), engineSocket: join(home, "to-engine", "docker.sock") },
	};
	symlinkSync(join(home, "engine"), join(home, "to-engine"));
	for (const source of [root, join(root, "workspaces"), join(home, "engine")]) {
		expect(() => normaliseCreate("w", { mounts: [{ source, target: "/data" }] }, linked)).toThrow(
			/mounts\[0\]\.source/,
		);
	}
});

test("options of the small calls are checked like all others", () => {
	expect(normaliseCall(undefined)).toEqual({});
	for (const bad of [null, [], "x", { foo: 1 }, { signal: "x" }])
		expect(() => normaliseCall(bad)).toThrow(/options|signal/);
});

test("a mount is read-only unless said, links are resolved, and the order does not matter", () => {
	const [a, b] = [
		{ source: join(home, "to-data"), target: "/b" },
		{ source: join(home, "data"), target: "/a/", readOnly: false },
	];
	const request = normalise({ mounts: [a, b] });
	expect(request.shape.mounts).toEqual([
		{ source: join(home, "data"), target: "/a", readOnly: false },
		{ source: join(home, "data"), target: "/b", readOnly: true },
	]);
	expect(normalise({ mounts: [b, a] })).toEqual(request);
});

test("ports are tcp on the loopback address and any host port unless said", () => {
	expect(
		normalise({ ports: [{ port: 53, protocol: "udp", hostPort: 5353, hostIp: "0.0.0.0" }, 22] }).shape.ports,
	).toEqual([
		{ port: 22, protocol: "tcp", hostPort: null, hostIp: "127.0.0.1" },
		{ port: 53, protocol: "udp", hostPort: 5353, hostIp: "0.0.0.0" },
	]);
});

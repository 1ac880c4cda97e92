import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { canonicalJson } from "../../../src/primitives/canonical-json.js";
import { nearest } from "../../../src/primitives/checks.js";
import { isSandboxError, SandboxError } from "../../../src/primitives/errors.js";
import { KeyedQueue } from "../../../src/primitives/queue.js";
import {
	bytes,
	formatDuration,
	formatSize,
	GiB,
	KiB,
	MiB,
	parseDuration,
	parseSize,
	TiB,
} from "../../../src/primitives/units.js";

describe("sizes", () => {
	test("are powers of 1,024", () => {
		expect([bytes(7), KiB(1), MiB(512), GiB(1.5), TiB(1)]).toEqual([
			7, 1024, 536_870_912, 1_610_612_736, 1_099_511_627_776,
		]);
	});

	test.each([
		["512m", MiB(512)],
		["2g", GiB(2)],
		["1.5GiB", GiB(1.5)],
		["64kb", KiB(64)],
		["1048576", 1_048_576],
		[" 1 TiB ", TiB(1)],
		["7b", 7],
	])("%j is read", (text, value) => {
		expect(parseSize(text)).toBe(value);
	});

	test.each(["", "m", "-1m", "1x", "1 2m", "1e9", "0x10", "NaN", "999999999999t"])("%j is refused", (text) => {
		expect(() => parseSize(text, "--memory")).toThrow(/--memory: expected a size such as 512m/);
	});

	test.each([-1, Number.NaN, Number.POSITIVE_INFINITY])("MiB(%d) is refused", (amount) => {
		expect(() => MiB(amount)).toThrow(/MiB: expected a number ≥ 0/);
	});

	test("what is formatted whole is read back", () => {
		fc.assert(
			fc.property(
				fc.integer({ min: 0, max: 1023 }),
				fc.constantFrom(KiB, MiB, GiB),
				(n, unit) => void expect(parseSize(formatSize(unit(n)))).toBe(unit(n)),
			),
		);
	});
});

describe("durations", () => {
	test.each([
		["30s", 30_000],
		["1h", 3_600_000],
		["1h30m", 5_400_000],
		["250ms", 250],
		["0", 0],
		["1.5s", 1500],
		["2d", 172_800_000],
	])("%j is read", (text, value) => {
		expect(parseDuration(text)).toBe(value);
	});

	test.each(["", "30", "s", "1h 30m", "-1s", "1y", "1s2", "1sx"])("%j is refused", (text) => {
		expect(() => parseDuration(text, "--idle")).toThrow(/--idle: expected a duration such as 30s/);
	});

	test("are shown in their two largest units", () => {
		expect([0, 250, 1000, 90_000, 3_600_000, 90_061_000].map(formatDuration)).toEqual([
			"none",
			"250ms",
			"1s",
			"1m30s",
			"1h",
			"1d1h",
		]);
	});
});

describe("canonical JSON", () => {
	test("has one text for one value, whatever the order of keys", () => {
		expect(canonicalJson({ b: [1, { d: null, c: "é" }], a: true, u: undefined })).toBe(
			'{"a":true,"b":[1,{"c":"é","d":null}]}',
		);
	});

	test("reads back as the same value", () => {
		fc.assert(
			fc.property(
				fc.jsonValue(),
				(value) => void expect(JSON.parse(canonicalJson(value as never))).toEqual(JSON.parse(JSON.stringify(value))),
			),
		);
	});

	test("refuses what JSON cannot hold", () => {
		expect(() => canonicalJson(Number.NaN)).toThrow(TypeError);
	});
});

describe("errors", () => {
	test("are known by code, also across copies of the package", () => {
		const error = new SandboxError("not_found", "none", { details: { name: "w" }, hint: "make it" });
		expect(isSandboxError(error)).toBe(true);
		expect(isSandboxError(error, "not_found")).toBe(true);
		expect(isSandboxError(error, "conflict")).toBe(false);
		expect(isSandboxError(new Error("x"))).toBe(false);
		const copy = Object.assign(new Error("x"), { code: "gone", [Symbol.for("sandboxes.SandboxError")]: true });
		expect(isSandboxError(copy, "gone")).toBe(true);
		expect(JSON.parse(JSON.stringify(error))).toEqual({
			code: "not_found",
			message: "none",
			retryable: false,
			details: { name: "w" },
			hint: "make it",
		});
	});
});

test("the nearest known word is found, and none where nothing is near", () => {
	expect(nearest("memroy", ["memory", "cpus"])).toBe("memory");
	expect(nearest("idle", ["idleTimeoutMs", "image"])).toBe("idleTimeoutMs");
	expect(nearest("zzzzzz", ["memory", "cpus"])).toBeUndefined();
});

describe("the queue of a key", () => {
	test("runs one at a time in order, and another key beside it", async () => {
		const queue = new KeyedQueue();
		const log: string[] = [];
		const step = (key: string, tag: string) =>
			queue.run(key, async () => {
				log.push(`${tag}+`);
				await new Promise((resolve) => setImmediate(resolve));
				log.push(`${tag}-`);
			});
		await Promise.all([step("a", "1"), step("a", "2"), step("b", "3")]);
		expect(log.indexOf("2+")).toBeGreaterThan(log.indexOf("1-"));
		expect(log.indexOf("3+")).toBeLessThan(log.indexOf("1-"));
		expect(queue.size).toBe(0);
	});

	test("goes on after a failure, and a waiter that aborts leaves without running", async () => {
		const queue = new KeyedQueue();
		const controller = new AbortController();
		let ran = false;
		let open: () => void = () => {};
		const first = queue.run("a", () => new Promise<void>((_, reject) => (open = () => reject(new Error("first")))));
		const second = queue.run(
			"a",
			async () => {
				ran = true;
			},
			controller.signal,
		);
		const third = queue.run("a", async () => "third");
		controller.abort(new Error("mine"));
		await expect(second).rejects.toThrow("mine");
		open();
		await expect(first).rejects.toThrow("first");
		await expect(third).resolves.toBe("third");
		expect(ran).toBe(false);
	});
});

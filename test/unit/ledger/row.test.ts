import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { canMove, parseRow, rowKey, type SandboxRow, type SandboxState } from "../../../src/ledger/row.js";
import { thisOwner } from "../../../src/primitives/owner.js";

const least: SandboxRow = {
	kind: "sandbox",
	prefix: "sbx",
	name: "w",
	state: "intent",
	operationKey: "k",
	epoch: 1,
	workspaceId: "id",
	env: {},
	labels: {},
	at: 1,
};
const full: SandboxRow = {
	...least,
	state: "ready",
	owner: thisOwner(),
	engineId: "e",
	containerId: "c",
	replaces: "d",
	shape: { memoryBytes: 1, ports: [{ port: 80 }] },
	env: { A: "1" },
	labels: { l: "" },
	stopGraceMs: 0,
	libc: "glibc",
	createdAtMs: 5,
	error: "x",
};

describe("a row", () => {
	test("comes back from JSON as it was", () => {
		for (const row of [least, full]) expect(parseRow(JSON.parse(JSON.stringify(row)))).toEqual(row);
	});

	test("lets unknown fields go", () => {
		expect(parseRow({ ...least, later: true })).toEqual(least);
	});

	test("is none when any field is missing or of the wrong kind", () => {
		for (const field of Object.keys(least)) expect(parseRow({ ...least, [field]: undefined })).toBeUndefined();
		for (const field of Object.keys(full)) expect(parseRow({ ...full, [field]: null })).toBeUndefined();
		for (const value of [
			null,
			undefined,
			1,
			"x",
			[],
			{},
			{ ...least, state: "none" },
			{ ...least, state: "toString" },
		]) {
			expect(parseRow(value)).toBeUndefined();
		}
	});

	test("has a key of its own for every prefix and name", () => {
		fc.assert(
			fc.property(fc.string(), fc.string(), fc.string(), fc.string(), (prefix, name, otherPrefix, otherName) => {
				const same = prefix === otherPrefix && name === otherName;
				return (rowKey(prefix, name) === rowKey(otherPrefix, otherName)) === same;
			}),
		);
		expect(rowKey("ci", "a-w")).not.toBe(rowKey("ci-a", "w"));
	});
});

describe("the moves of a row", () => {
	test("lead from every state to release, and from release to a new life", () => {
		const states: SandboxState[] = [
			"reserved",
			"intent",
			"created",
			"ready",
			"releasing",
			"released",
			"release_failed",
			"unknown",
		];
		for (const from of states) {
			const seen = new Set<SandboxState>([from]);
			for (const state of seen) for (const to of states) if (canMove(state, to)) seen.add(to);
			expect([...seen]).toEqual(expect.arrayContaining(["released", "intent", "ready"]));
			expect(canMove(from, from)).toBe(true);
		}
	});

	test("never drop a row whose container may still be there", () => {
		for (const state of ["intent", "created", "ready", "releasing", "release_failed", "unknown"] as const) {
			expect(canMove(state, undefined)).toBe(false);
		}
		expect(canMove("released", undefined)).toBe(true);
		expect(canMove("ready", "released")).toBe(false);
		expect(canMove("release_failed", "ready")).toBe(false);
		expect(canMove(undefined, "intent")).toBe(true);
	});
});

import { appendFileSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { KEEP } from "../../../src/ledger/ledger.js";
import { encodeLine } from "../../../src/ledger/line.js";
import { isSandboxError } from "../../../src/primitives/errors.js";
import { openCounts } from "../../support/ledger-rows.js";
import { tempDirectory } from "../../support/temp-directory.js";

async function failure(promise: Promise<unknown>): Promise<unknown> {
	return promise.then(
		() => undefined,
		(error: unknown) => error,
	);
}

describe("a commit", () => {
	test("is seen by every other handle on the file", async () => {
		const directory = tempDirectory();
		const [a, b] = [openCounts(directory), openCounts(directory)];
		expect(await b.get("x")).toBeUndefined();
		const revision = await a.commit("x", 0, { count: 1 });
		expect(await b.get("x")).toEqual({ revision, row: { count: 1 } });
		expect(await openCounts(directory).all()).toEqual(new Map([["x", { revision, row: { count: 1 } }]]));
	});

	test("that expects another revision changes nothing", async () => {
		const directory = tempDirectory();
		const [a, b] = [openCounts(directory), openCounts(directory)];
		const first = (await a.commit("x", 0, { count: 1 })) ?? 0;
		expect(await b.commit("x", 0, { count: 2 })).toBeUndefined();
		const second = (await b.commit("x", first, { count: 3 })) ?? 0;
		expect(second).toBeGreaterThan(first);
		expect(await a.commit("x", first, { count: 4 })).toBeUndefined();
		expect(await a.commit("y", first, { count: 4 })).toBeUndefined();
		expect((await a.get("x"))?.row).toEqual({ count: 3 });
	});

	test("of an earlier life of a row is void after the row was deleted and made again", async () => {
		const ledger = openCounts(tempDirectory());
		const first = (await ledger.commit("x", 0, { count: 1 })) ?? 0;
		await ledger.commit("x", first, undefined);
		expect(await ledger.get("x")).toBeUndefined();
		const again = await ledger.commit("x", 0, { count: 1 });
		expect(again).not.toBe(first);
		expect(await ledger.commit("x", first, { count: 9 })).toBeUndefined();
		await ledger.compact();
		expect(await ledger.commit("x", first, { count: 9 })).toBeUndefined();
		expect(await ledger.get("x")).toEqual({ revision: again, row: { count: 1 } });
	});

	test("wins once where several of one process expect the same", async () => {
		const ledger = openCounts(tempDirectory());
		const revisions = await Promise.all([1, 2, 3, 4].map((count) => ledger.commit("x", 0, { count })));
		expect(revisions.filter((revision) => revision !== undefined)).toHaveLength(1);
	});

	test("goes out with all that are queued in one write", async () => {
		let writes = 0;
		const ledger = openCounts(tempDirectory(), { onStep: (step) => (writes += Number(step === "before_append")) });
		await ledger.all();
		await Promise.all(Array.from({ length: 50 }, (_, i) => ledger.update(`x${i}`, () => ({ count: i }))));
		expect(writes).toBe(1);
		expect((await ledger.all()).size).toBe(50);
	});

	test("refuses a row that could not be read back", async () => {
		const ledger = openCounts(tempDirectory());
		const error = await failure(ledger.commit("x", 0, { count: "1" } as never));
		expect(isSandboxError(error, "invalid_input")).toBe(true);
		expect((await ledger.all()).size).toBe(0);
	});

	test("keeps any key and any text", async () => {
		const directory = tempDirectory();
		const ledger = openCounts(directory);
		const keys = ["", "__proto__", "a\nb", '"}', "\u0000", "ü😀", "\ud800", "constructor"];
		for (const [count, key] of keys.entries()) await ledger.commit(key, 0, { count, note: key });
		await ledger.compact();
		const read = await openCounts(directory).all();
		expect([...read].map(([key, { row }]) => [key, row])).toEqual(
			keys.map((key, count) => [key, { count, note: key }]),
		);
	});
});

describe("an update", () => {
	test("is made on what stands, whoever was first", async () => {
		const directory = tempDirectory();
		const handles = [openCounts(directory), openCounts(directory), openCounts(directory)];
		await Promise.all(
			handles.flatMap((ledger) =>
				Array.from({ length: 20 }, () => ledger.update("x", (row) => ({ count: (row?.count ?? 0) + 1 }))),
			),
		);
		expect((await openCounts(directory).get("x"))?.row.count).toBe(60);
	});

	test("gives what then stands, also where it keeps or deletes the row", async () => {
		const ledger = openCounts(tempDirectory());
		expect(await ledger.update("x", () => KEEP)).toBeUndefined();
		expect(await ledger.update("x", () => undefined)).toBeUndefined();
		const made = await ledger.update("x", () => ({ count: 1 }));
		expect(made).toEqual(await ledger.get("x"));
		expect(await ledger.update("x", () => KEEP)).toEqual(made);
		expect(await ledger.update("x", () => undefined)).toBeUndefined();
		expect(await ledger.get("x")).toBeUndefined();
	});

	test("rejects with what its change throws and leaves the row", async () => {
		const ledger = openCounts(tempDirectory());
		await ledger.commit("x", 0, { count: 1 });
		const thrown = new Error("no");
		expect(
			await failure(
				ledger.update("x", () => {
					throw thrown;
				}),
			),
		).toBe(thrown);
		expect((await ledger.update("x", (row) => ({ count: (row?.count ?? 0) + 1 })))?.row.count).toBe(2);
	});
});

describe("an epoch", () => {
	test("is never given twice, by any handle, also over compaction", async () => {
		const directory = tempDirectory();
		const given: number[] = [];
		for (let round = 0; round < 3; round++) {
			const [a, b] = [openCounts(directory), openCounts(directory)];
			given.push(...(await Promise.all([a.nextEpoch(), b.nextEpoch(), a.nextEpoch(), b.nextEpoch()])));
			await a.compact();
			given.push(await b.nextEpoch());
		}
		expect(new Set(given).size).toBe(given.length);
		expect(Math.min(...given)).toBe(1);
		expect(await openCounts(directory).nextEpoch()).toBe(Math.max(...given) + 1);
	});

	test("is above what the caller has seen elsewhere", async () => {
		const ledger = openCounts(tempDirectory());
		expect(await ledger.nextEpoch(41)).toBe(42);
		expect(await ledger.nextEpoch(7)).toBe(43);
	});
});

describe("the file", () => {
	test("is readable by its owner alone and holds one JSON object a line", async () => {
		const directory = tempDirectory();
		const ledger = openCounts(directory);
		for (let i = 0; i < 5; i++) await ledger.update("x", () => ({ count: i }));
		const mode = (): number => statSync(ledger.path).mode & 0o777;
		expect(mode()).toBe(0o600);
		await ledger.compact();
		expect(mode()).toBe(0o600);
		await ledger.commit("y", 0, { count: 1 });
		for (const line of readFileSync(ledger.path, "utf8").split("\n")) expect(typeof JSON.parse(line)).toBe("object");
	});

	test("is made with its directory, and the rebuild is asked once", async () => {
		const directory = join(tempDirectory(), "a", "b");
		let asked = 0;
		let told = 0;
		const ledger = openCounts(directory, {
			rebuild: async () => {
				asked += 1;
				return undefined;
			},
			onDamage: () => (told += 1),
		});
		await Promise.all([ledger.get("x"), ledger.all(), ledger.commit("x", 0, { count: 1 })]);
		expect([asked, told]).toEqual([1, 0]);
		expect(readdirSync(directory)).toEqual(["ledger.jsonl"]);
	});

	test("stays small when rows change often", async () => {
		const directory = tempDirectory();
		const ledger = openCounts(directory);
		for (let i = 0; i < 60; i++) {
			await Promise.all(Array.from({ length: 20 }, (_, k) => ledger.update(`k${k}`, () => ({ count: i }))));
		}
		await ledger.nextEpoch();
		expect(readFileSync(ledger.path, "utf8").split("\n").length).toBeLessThan(500);
		expect([...(await openCounts(directory).all()).values()].map(({ row }) => row.count)).toEqual(Array(20).fill(59));
		expect(readdirSync(directory)).toEqual(["ledger.jsonl"]);
	});

	test("can be a torn line's, cut at any place, without loss of what comes next", async () => {
		const directory = tempDirectory();
		const ledger = openCounts(directory);
		await ledger.commit("x", 0, { count: 0 });
		const told: string[] = [];
		const whole = encodeLine({ by: "gone-1", at: 1, key: "x", from: 0, row: { count: 7 } });
		for (let cut = 1; cut < whole.length; cut += 3) {
			appendFileSync(ledger.path, `\n${whole.slice(0, cut)}`);
			const fresh = openCounts(directory, { onDamage: ({ reason }) => told.push(reason) });
			const before = await fresh.get("x");
			expect(before?.row.count).toBe(Math.floor(cut / 3));
			expect(await ledger.commit("x", before?.revision ?? 0, { count: Math.floor(cut / 3) + 1 })).toBeDefined();
			await fresh.close();
		}
		expect(told).toEqual([]);
	});
});

describe("a ledger that the system does not let us read", () => {
	test("is ledger_unreadable, never empty, and not overwritten", async () => {
		const directory = tempDirectory();
		mkdirSync(join(directory, "ledger.jsonl"));
		const ledger = openCounts(directory);
		expect(isSandboxError(await failure(ledger.all()), "ledger_unreadable")).toBe(true);
		expect(isSandboxError(await failure(ledger.commit("x", 0, { count: 1 })), "ledger_unreadable")).toBe(true);
		expect(readdirSync(directory)).toEqual(["ledger.jsonl"]);
	});

	test("is ledger_unreadable when a later version wrote it", async () => {
		const directory = tempDirectory();
		const header = encodeLine({ ledger: 2 } as never);
		writeFileSync(join(directory, "ledger.jsonl"), `${header}\nwhatever`);
		expect(isSandboxError(await failure(openCounts(directory).all()), "ledger_unreadable")).toBe(true);
		expect(readdirSync(directory)).toEqual(["ledger.jsonl"]);
	});

	test("is ledger_unreadable when it holds a row of an unknown form, until that row is written anew", async () => {
		const directory = tempDirectory();
		const later = openCounts(directory, { parseRow: (value) => value as { count: number } });
		await later.commit("x", 0, { rows: "of another kind" } as never);
		const ledger = openCounts(directory);
		expect(isSandboxError(await failure(ledger.all()), "ledger_unreadable")).toBe(true);
		await later.update("x", () => ({ count: 1 }));
		expect((await ledger.get("x"))?.row.count).toBe(1);
	});
});

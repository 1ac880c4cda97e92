import { closeSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { Journal } from "../../../src/ledger/journal.js";
import type { Ledger, LedgerStep } from "../../../src/ledger/ledger.js";
import { encodeLine } from "../../../src/ledger/line.js";
import { catchUp, seal } from "../../../src/ledger/sealing.js";
import { Successor } from "../../../src/ledger/successor.js";
import { thisOwner } from "../../../src/primitives/owner.js";
import { type CountRow, openCounts, parseCountRow } from "../../support/ledger-rows.js";
import { tempDirectory } from "../../support/temp-directory.js";

/** Leaves the file as a process would that died at a step of a compaction. */
async function compactUntil(directory: string, step: LedgerStep): Promise<void> {
	const ledger = openCounts(directory, {
		onStep: (reached) => {
			if (reached === step) throw new Error(`died at ${step}`);
		},
	});
	await expect(ledger.compact()).rejects.toThrow(`died at ${step}`);
}

const counts = async (ledger: Ledger<CountRow>): Promise<Record<string, number>> =>
	Object.fromEntries([...(await ledger.all())].map(([key, { row }]) => [key, row.count]));

describe.each(["successor_written", "sealed", "moved"] as const)("a compaction that ends at %s", (step) => {
	test("loses no row and no epoch, for handles that were open and for new ones", async () => {
		const directory = tempDirectory();
		const open = openCounts(directory);
		const revision = (await open.commit("a", 0, { count: 1 })) ?? 0;
		await open.commit("b", 0, { count: 1 });
		const epoch = await open.nextEpoch();
		await compactUntil(directory, step);
		const fresh = openCounts(directory);
		expect(await counts(fresh)).toEqual({ a: 1, b: 1 });
		expect(await fresh.commit("a", revision, { count: 2 })).toBeDefined();
		expect(await open.commit("b", (await open.get("b"))?.revision ?? 0, { count: 2 })).toBeDefined();
		expect(await open.nextEpoch()).toBe(epoch + 1);
		expect(await counts(open)).toEqual({ a: 2, b: 2 });
		expect(await counts(openCounts(directory))).toEqual({ a: 2, b: 2 });
		expect(readdirSync(directory)).toEqual(["ledger.jsonl"]);
	});
});

test("a sealed ledger whose successor was lost is written again, without loss", async () => {
	const directory = tempDirectory();
	const open = openCounts(directory);
	await open.commit("a", 0, { count: 1 });
	for (let round = 0; round < 2; round++) {
		await compactUntil(directory, "sealed");
		for (const name of readdirSync(directory)) if (name.startsWith("ledger.next-")) rmSync(join(directory, name));
	}
	const handles = [open, openCounts(directory), openCounts(directory)];
	await Promise.all(handles.map((ledger) => ledger.update("a", (row) => ({ count: (row?.count ?? 0) + 1 }))));
	expect(await counts(open)).toEqual({ a: 4 });
	expect(readdirSync(directory)).toEqual(["ledger.jsonl"]);
});

test("what is written behind the seal of a file counts in the new file or not at all", async () => {
	const directory = tempDirectory();
	const open = openCounts(directory);
	await open.commit("a", 0, { count: 1 });
	const old = openSync(open.path, "a");
	await openCounts(directory).compact();
	writeSync(old, readFileSync(open.path));
	closeSync(old);
	expect(await open.commit("a", (await open.get("a"))?.revision ?? 0, { count: 2 })).toBeDefined();
	expect(await counts(openCounts(directory))).toEqual({ a: 2 });
});

test("a writer overtaken by a compaction and a change between its look and its write changes nothing", async () => {
	const directory = tempDirectory();
	const other = openCounts(directory);
	await other.commit("a", 0, { count: 1 });
	let overtaking = false;
	let overtaken: Promise<unknown> = Promise.resolve();
	const writer = openCounts(directory, {
		onStep: (step) => {
			if (step !== "before_append" || overtaking) return;
			overtaking = true;
			overtaken = other.compact().then(() => other.update("a", () => ({ count: 5 })));
		},
	});
	const stored = await writer.get("a");
	await Promise.all([writer.commit("a", stored?.revision ?? 0, { count: 9 }), overtaken]);
	await overtaken;
	expect(await counts(writer)).toEqual({ a: 5 });
	expect(await counts(openCounts(directory))).toEqual({ a: 5 });
});

test.each(["seen", "not seen"])(
	"a file is not sealed where something was written behind its successor's end, %s",
	async (seen) => {
		const directory = tempDirectory();
		const other = openCounts(directory);
		const revision = (await other.commit("a", 0, { count: 1 })) ?? 0;
		const journal = Journal.open(other.path, { parseRow: parseCountRow });
		if (!journal) return expect.unreachable();
		const { replay } = journal;
		const from = { consumed: replay.consumed, examined: journal.examined, sealLines: 0 };
		const content = { id: "x", lsn: replay.positionOf(from.consumed), epoch: 0, recovered: false, rows: new Map() };
		const successor = await Successor.write(directory, content);
		const offset = await catchUp(journal, successor, from, true);
		await other.commit("a", revision, { count: 2 });
		if (seen === "seen") journal.readOn();
		expect(seal(journal, successor, offset ?? 0, directory, undefined)).toBe(false);
		await successor.discard();
		journal.close();
		expect(await counts(openCounts(directory))).toEqual({ a: 2 });
	},
);

test("many compactions at once leave one ledger and nothing else", async () => {
	const directory = tempDirectory();
	const handles = [1, 2, 3, 4].map(() => openCounts(directory));
	await Promise.all(
		handles.map(async (ledger, n) => {
			for (let i = 0; i < 10; i++) {
				await ledger.update(`k${i % 3}`, (row) => ({ count: (row?.count ?? 0) + 1 }));
				if ((i + n) % 3 === 0) await ledger.compact();
			}
		}),
	);
	const total = Object.values(await counts(openCounts(directory))).reduce((sum, count) => sum + count, 0);
	expect(total).toBe(40);
	expect(readdirSync(directory)).toEqual(["ledger.jsonl"]);
});

test("a file that a dead compactor left is removed, written or not; one of a living process is not", async () => {
	const directory = tempDirectory();
	const ledger = openCounts(directory);
	await ledger.commit("a", 0, { count: 1 });
	const { pid, startTime } = thisOwner();
	const leave = (name: string, content: string): void => writeFileSync(join(directory, name), content);
	const living = `ledger.next-${pid}-${startTime}-00000000000000aa.jsonl`;
	leave(living, "");
	leave(`ledger.next-${pid}-1-00000000000000ab.jsonl`, "");
	const owner = { ...thisOwner(), startTime: 1 };
	const header = encodeLine({ ledger: 1, id: "x", lsn: 1, rows: 0, epoch: 0, owner, recovered: false });
	leave(`ledger.next-${pid}-${startTime}-00000000000000ac.jsonl`, header);
	await ledger.compact();
	expect(readdirSync(directory).sort()).toEqual(["ledger.jsonl", living]);
});

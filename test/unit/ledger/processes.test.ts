import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { afterEach, describe, expect, test } from "vitest";
import { sleep } from "../../../src/primitives/abort.js";
import { type Child, startChild } from "../../support/children.js";
import { openCounts } from "../../support/ledger-rows.js";
import { tempDirectory } from "../../support/temp-directory.js";

const children: Child[] = [];

function start(directory: string, ...args: readonly (string | number)[]): Child {
	const child = startChild("ledger-worker.ts", [directory, ...args.map(String)]);
	children.push(child);
	return child;
}

/** Lets children that are up begin at the same moment. */
async function begin(...started: readonly Child[]): Promise<void> {
	await Promise.all(started.map((child) => child.printed("up")));
	for (const child of started) child.send("go");
}

afterEach(() => {
	for (const child of children.splice(0)) child.kill("SIGKILL");
});

test("8 processes x 100 changes of the same rows, beside compactions: none lost, none failed", {
	timeout: 60_000,
}, async () => {
	const directory = tempDirectory();
	const workers = Array.from({ length: 8 }, () => start(directory, "count", 100, 5));
	await begin(...workers);
	const own = openCounts(directory);
	await own.all();
	const begins = (): number => JSON.parse(readFileSync(own.path, "utf8").split("\n")[0] ?? "").lsn;
	const files = new Set([begins()]);
	let running = true;
	const all = Promise.all(workers.map((worker) => worker.ended())).finally(() => (running = false));
	let highest = 0;
	while (running) {
		await own.compact();
		const rows = [...(await own.all()).values()];
		const sum = rows.reduce((total, { row }) => total + row.count, 0);
		expect(sum).toBeGreaterThanOrEqual(highest);
		highest = sum;
		files.add(begins());
		await sleep(5);
	}
	expect(await all).toEqual(Array(8).fill(0));
	const rows = [...(await openCounts(directory).all())].map(([key, { row }]) => [key, row.count]);
	expect(Object.fromEntries(rows)).toEqual({ k0: 160, k1: 160, k2: 160, k3: 160, k4: 160 });
	expect(files.size).toBeGreaterThan(1);
	expect(readdirSync(directory)).toEqual(["ledger.jsonl"]);
});

test("10 processes x 10 new rows, half of which are deleted by some: exactly what exists, and every read is whole", {
	timeout: 60_000,
}, async () => {
	const directory = tempDirectory();
	const workers = Array.from({ length: 10 }, (_, n) => start(directory, "names", n, 10, n % 2 === 0 ? 5 : 0));
	await begin(...workers);
	let running = true;
	const all = Promise.all(workers.map((worker) => worker.ended())).finally(() => (running = false));
	while (running) {
		for (const { row } of (await openCounts(directory).all()).values()) expect(row.count).toBeLessThan(10);
		await sleep(10);
	}
	expect(await all).toEqual(Array(10).fill(0));
	const expected = Array.from({ length: 10 }, (_, n) =>
		Array.from({ length: 10 }, (_, i) => `w${n}-${i}`).slice(n % 2 === 0 ? 5 : 0),
	).flat();
	expect([...(await openCounts(directory).all()).keys()].sort()).toEqual(expected.sort());
	expect(readdirSync(directory)).toEqual(["ledger.jsonl"]);
});

describe("a process that is stopped and overtaken", { timeout: 60_000 }, () => {
	test("between its look and its write changes nothing when it wakes", async () => {
		const directory = tempDirectory();
		const own = openCounts(directory);
		await own.commit("k0", 0, { count: 1 });
		const child = start(directory, "die", "before_append", "SIGSTOP", "commit");
		await begin(child);
		await child.printed("at before_append");
		await own.update("k0", () => ({ count: 2 }));
		await own.compact();
		await own.update("k0", () => ({ count: 3 }));
		child.kill("SIGCONT");
		await child.printed("commit lost");
		expect((await own.get("k0"))?.row.count).toBe(3);
		expect((await openCounts(directory).get("k0"))?.row.count).toBe(3);
	});

	test("between its look and its write, while the file was only compacted, still makes its change", async () => {
		const directory = tempDirectory();
		const own = openCounts(directory);
		await own.commit("k0", 0, { count: 1 });
		const child = start(directory, "die", "before_append", "SIGSTOP", "commit");
		await begin(child);
		await child.printed("at before_append");
		await own.compact();
		child.kill("SIGCONT");
		await child.printed("commit won");
		expect((await own.get("k0"))?.row.count).toBe(1000);
	});

	test("between a seal and the move finds its compaction finished, and puts nothing back", async () => {
		const directory = tempDirectory();
		const own = openCounts(directory);
		await own.commit("k0", 0, { count: 1 });
		const child = start(directory, "die", "sealed", "SIGSTOP", "compact");
		await begin(child);
		await child.printed("at sealed");
		await own.update("k0", () => ({ count: 2 }));
		await own.compact();
		await own.update("k0", () => ({ count: 3 }));
		child.kill("SIGCONT");
		await child.printed("done");
		expect((await openCounts(directory).get("k0"))?.row.count).toBe(3);
		expect(readdirSync(directory)).toEqual(["ledger.jsonl"]);
	});
});

describe("kill -9", { timeout: 60_000 }, () => {
	test("at each step of a commit and of a compaction leaves a whole ledger", async () => {
		const cases = [
			["before_append", "commit"],
			["appended", "commit"],
			["successor_written", "compact"],
			["sealed", "compact"],
			["moved", "compact"],
		] as const;
		const results = await Promise.all(
			cases.map(async ([step, task]) => {
				const directory = tempDirectory();
				const own = openCounts(directory);
				await own.commit("k0", 0, { count: 1 });
				await own.commit("k1", 0, { count: 1 });
				const child = start(directory, "die", step, "SIGKILL", task);
				await begin(child);
				expect(await child.ended()).toBe("SIGKILL");
				await own.update("k1", (row) => ({ count: (row?.count ?? 0) + 1 }));
				await own.compact();
				const rows = await openCounts(directory).all();
				expect(readdirSync(directory)).toEqual(["ledger.jsonl"]);
				return [step, rows.get("k0")?.row.count, rows.get("k1")?.row.count];
			}),
		);
		expect(results).toEqual([
			["before_append", 1, 2],
			["appended", 1000, 2],
			["successor_written", 1, 2],
			["sealed", 1, 2],
			["moved", 1, 2],
		]);
	});
});

test("processes that find the damage at once mend it once, and keep what any of them knew", {
	timeout: 60_000,
}, async () => {
	const directory = tempDirectory();
	const own = openCounts(directory);
	for (let i = 0; i < 20; i++) await own.commit(`k${i}`, 0, { count: i });
	const menders = Array.from({ length: 4 }, () => start(directory, "mend"));
	await Promise.all(menders.map((mender) => mender.printed("up")));
	const text = readFileSync(own.path, "utf8");
	writeFileSync(own.path, text.replace('"count":7', '"count":8'));
	for (const mender of menders) mender.send("go");
	expect(await Promise.all(menders.map((mender) => mender.ended()))).toEqual([0, 0, 0, 0]);
	expect(menders.flatMap((mender) => mender.lines).filter((line) => line.startsWith("damage"))).toEqual([
		"damage line",
	]);
	for (const mender of menders) expect(mender.lines).toContain("rows 19");
	expect((await own.all()).size).toBe(20);
	expect((await openCounts(directory).get("k7"))?.row.count).toBe(7);
	expect(readdirSync(directory).filter((name) => name.startsWith("ledger.damaged-"))).toHaveLength(1);
});

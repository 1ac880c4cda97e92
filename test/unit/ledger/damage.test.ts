import { copyFileSync, readdirSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { DamageReason, LedgerDamage } from "../../../src/ledger/ledger.js";
import { Replay } from "../../../src/ledger/replay.js";
import { type CountRow, openCounts, parseCountRow } from "../../support/ledger-rows.js";
import { tempDirectory } from "../../support/temp-directory.js";

function replay(bytes: Buffer): Replay<CountRow> {
	const replayed = new Replay<CountRow>({ parseRow: parseCountRow });
	replayed.feed(bytes, true);
	replayed.endOfFile();
	return replayed;
}

const counts = (rows: ReadonlyMap<string, { row: CountRow | undefined }>): Record<string, number | undefined> =>
	Object.fromEntries([...rows].map(([key, { row }]) => [key, row?.count]));

/** A ledger with a snapshot, changes, a deletion and an epoch, and its bytes. */
async function written(directory: string): Promise<{ path: string; bytes: Buffer }> {
	const ledger = openCounts(directory);
	for (const key of ["a", "b", "c"]) await ledger.commit(key, 0, { count: 1 });
	await ledger.compact();
	for (let i = 2; i < 4; i++) await ledger.update("a", () => ({ count: i }));
	await ledger.update("b", () => undefined);
	await ledger.update("d", () => ({ count: 1 }));
	await ledger.nextEpoch();
	await ledger.close();
	return { path: ledger.path, bytes: readFileSync(ledger.path) };
}

test("no single changed bit goes unnoticed", async () => {
	const { bytes } = await written(tempDirectory());
	const sound = replay(bytes);
	expect(sound.damage).toBeUndefined();
	for (let offset = 0; offset < bytes.length; offset++) {
		for (let bit = 0; bit < 8; bit++) {
			const changed = Buffer.from(bytes);
			changed[offset] = (changed[offset] ?? 0) ^ (1 << bit);
			const damage = replay(changed).damage;
			if (!damage) expect.unreachable(`bit ${bit} of byte ${offset} of ${bytes.length} was changed unnoticed`);
		}
	}
});

test("a row whose line was changed keeps its newest state that can be read, and the others keep theirs", async () => {
	const directory = tempDirectory();
	const { path, bytes } = await written(directory);
	const text = bytes.toString();
	writeFileSync(path, text.replace('"row":{"count":2}', '"row":{"count":8}'));
	const damages: LedgerDamage[] = [];
	const ledger = openCounts(directory, { onDamage: (damage) => damages.push(damage) });
	expect(counts(await ledger.all())).toEqual({ a: 3, c: 1, d: 1 });
	expect(damages.map(({ reason }) => reason)).toEqual(["line"]);
	expect(readFileSync(damages[0]?.setAside ?? "").toString()).toContain('"row":{"count":8}');
	expect(await ledger.nextEpoch()).toBeGreaterThan(1);
});

test("a line that others follow is missed when it is gone without a trace", async () => {
	const directory = tempDirectory();
	const { path, bytes } = await written(directory);
	const lines = bytes.toString().split("\n");
	writeFileSync(path, lines.filter((line) => !line.includes('"count":2}')).join("\n"));
	const reasons: DamageReason[] = [];
	const ledger = openCounts(directory, { onDamage: ({ reason }) => reasons.push(reason) });
	expect(counts(await ledger.all())).toEqual({ a: 3, c: 1, d: 1 });
	expect(reasons).toEqual(["lost_line"]);
});

describe.each([
	["empty", ""],
	["blank", " \n \n"],
	["one line end", "\n"],
	["null", "null"],
	["an empty list", "[]"],
	["an empty object", "{}\n"],
	["another program's JSON", '{"sandboxes":{"w":{"state":"ready"}}}'],
	["zeroed", "\0".repeat(8192)],
])("a ledger that is %s", (_title, content) => {
	const rebuild = async (): Promise<{ rows: Map<string, CountRow>; epochFloor: number }> => ({
		rows: new Map([["w", { count: 5 }]]),
		epochFloor: 70,
	});

	test("is set aside and rebuilt, once, whoever comes first", async () => {
		const directory = tempDirectory();
		writeFileSync(join(directory, "ledger.jsonl"), content);
		const damages: LedgerDamage[] = [];
		const handles = [1, 2, 3].map(() => openCounts(directory, { rebuild, onDamage: (d) => damages.push(d) }));
		const seen = await Promise.all(handles.map((ledger) => ledger.all()));
		for (const rows of seen) expect(counts(rows)).toEqual({ w: 5 });
		expect(damages).toHaveLength(1);
		const aside = damages[0]?.setAside ?? "";
		expect(readFileSync(aside, "utf8").startsWith(content)).toBe(true);
		expect(readdirSync(directory).sort()).toEqual([aside.slice(directory.length + 1), "ledger.jsonl"]);
		const [a, b] = handles;
		const stored = await a?.get("w");
		expect(await b?.commit("w", stored?.revision ?? 0, { count: 6 })).toBeDefined();
		expect(await a?.nextEpoch()).toBeGreaterThan(70);
		expect(counts(await openCounts(directory).all())).toEqual({ w: 6 });
		expect(damages).toHaveLength(1);
	});

	test("loses nothing that a living handle knew, whichever handle mends it", async () => {
		for (const mender of ["the one that knew", "a new one"]) {
			const directory = tempDirectory();
			const before = openCounts(directory, { rebuild });
			await before.update("w", () => undefined);
			await before.commit("mine", 0, { count: 1 });
			const revision = await before.commit("w", 0, { count: 7 });
			await before.update("gone", () => ({ count: 1 }));
			await before.update("gone", () => undefined);
			const epoch = await before.nextEpoch(100);
			writeFileSync(before.path, content);
			const fresh = openCounts(directory, { rebuild });
			if (mender === "a new one") await fresh.all();
			expect(counts(await before.all())).toEqual({ mine: 1, w: 7 });
			expect(counts(await fresh.all())).toEqual({ mine: 1, w: 7 });
			expect(counts(await openCounts(directory).all())).toEqual({ mine: 1, w: 7 });
			expect(await fresh.nextEpoch()).toBeGreaterThan(epoch);
			expect(await fresh.commit("mine", revision ?? 0, { count: 9 })).toBeUndefined();
		}
	});
});

test("a row that is known to be deleted is not brought back by what others remember", async () => {
	const directory = tempDirectory();
	const rows = new Map([
		["gone", { count: 5 }],
		["lost", { count: 6 }],
	]);
	let lost = false;
	const ledger = openCounts(directory, { rebuild: async () => (lost ? { rows } : undefined) });
	await ledger.commit("gone", 0, { count: 1 });
	await ledger.update("gone", () => undefined);
	lost = true;
	writeFileSync(ledger.path, "");
	expect(counts(await ledger.all())).toEqual({ lost: 6 });
});

test("a ledger that was deleted is made anew from what is remembered", async () => {
	const directory = tempDirectory();
	const reasons: DamageReason[] = [];
	const rebuild = async (): Promise<{ rows: Map<string, CountRow> }> => ({ rows: new Map([["w", { count: 5 }]]) });
	const ledger = openCounts(directory, { rebuild, onDamage: ({ reason }) => reasons.push(reason) });
	await ledger.commit("mine", 0, { count: 1 });
	const epoch = await ledger.nextEpoch();
	rmSync(ledger.path);
	expect(counts(await ledger.all())).toEqual({ w: 5, mine: 1 });
	expect(await ledger.nextEpoch()).toBeGreaterThan(epoch);
	expect(reasons).toEqual(["missing", "missing"]);
	expect(readdirSync(directory)).toEqual(["ledger.jsonl"]);
});

test("a ledger that was deleted and made anew by another gets back what a living handle knew", async () => {
	const directory = tempDirectory();
	const ledger = openCounts(directory);
	await ledger.commit("a", 0, { count: 1 });
	const revision = await ledger.commit("b", 0, { count: 1 });
	const epoch = await ledger.nextEpoch(50);
	rmSync(ledger.path);
	const other = openCounts(directory);
	await other.commit("b", 0, { count: 2 });
	expect(counts(await ledger.all())).toEqual({ a: 1, b: 2 });
	expect(counts(await other.all())).toEqual({ a: 1, b: 2 });
	expect(await ledger.commit("b", revision ?? 0, { count: 3 })).toBeUndefined();
	expect(await other.nextEpoch()).toBeGreaterThan(epoch);
});

test.each(["emptied", "deleted"])(
	"of several that remember a row of an %s ledger the one that knew it last prevails, whoever comes first",
	async (how) => {
		for (const latestFirst of [true, false]) {
			const directory = tempDirectory();
			const [latest, earlier] = [openCounts(directory), openCounts(directory)];
			await latest.commit("a", 0, { count: 1 });
			await latest.commit("gone", 0, { count: 1 });
			await earlier.all();
			await latest.update("a", () => ({ count: 2 }));
			await latest.update("gone", () => undefined);
			if (how === "emptied") writeFileSync(latest.path, "");
			else rmSync(latest.path);
			await openCounts(directory).all();
			for (const ledger of latestFirst ? [latest, earlier] : [earlier, latest]) await ledger.all();
			for (const ledger of [latest, earlier, openCounts(directory)]) {
				expect(counts(await ledger.all())).toEqual({ a: 2 });
			}
		}
	},
);

test("a directory that was removed and made again has a ledger of its own", async () => {
	for (const first of ["a new handle", "the old one"]) {
		const directory = join(tempDirectory(), "root");
		const ledger = openCounts(directory);
		await ledger.commit("a", 0, { count: 1 });
		rmSync(directory, { recursive: true });
		if (first === "a new handle") await openCounts(directory).commit("b", 0, { count: 2 });
		expect(counts(await ledger.all())).toEqual(first === "a new handle" ? { b: 2 } : {});
		expect(await ledger.commit("a", 0, { count: 5 })).toBeDefined();
	}
});

test("a ledger cut short under a living handle gets back what the handle knew", async () => {
	const directory = tempDirectory();
	const ledger = openCounts(directory);
	await ledger.commit("a", 0, { count: 1 });
	const whole = readFileSync(ledger.path).length;
	await ledger.commit("b", 0, { count: 2 });
	for (const length of [whole, whole - 10]) {
		truncateSync(ledger.path, length);
		expect(counts(await ledger.all())).toEqual({ a: 1, b: 2 });
		expect(counts(await openCounts(directory).all())).toEqual({ a: 1, b: 2 });
	}
});

test("an older copy put in a ledger's place is not believed over what a living handle knew", async () => {
	for (const how of ["written over", "renamed"] as const) {
		const directory = tempDirectory();
		const ledger = openCounts(directory);
		await ledger.commit("a", 0, { count: 1 });
		const copy = join(tempDirectory(), "copy");
		copyFileSync(ledger.path, copy);
		await ledger.update("a", () => ({ count: 2 }));
		await ledger.update("b", () => ({ count: 1 }));
		if (how === "renamed") rmSync(ledger.path);
		copyFileSync(copy, ledger.path);
		expect(counts(await ledger.all())).toEqual({ a: 2, b: 1 });
		expect(counts(await openCounts(directory).all())).toEqual({ a: 2, b: 1 });
		expect(readdirSync(directory).filter((name) => name.startsWith("ledger.damaged-"))).toHaveLength(1);
	}
});

test("a copy that was put in a ledger's place and written on does not hide what a living handle wrote since", async () => {
	const directory = tempDirectory();
	const [a, b] = [openCounts(directory), openCounts(directory)];
	await a.commit("x", 0, { count: 1 });
	await b.all();
	const copy = join(directory, "copy");
	copyFileSync(a.path, copy);
	await a.update("x", () => ({ count: 2 }));
	await a.update("y", () => ({ count: 2 }));
	renameSync(copy, a.path);
	for (let i = 0; i < 5; i++) await b.update("z", () => ({ count: i }));
	expect(counts(await a.all())).toEqual({ x: 2, y: 2, z: 4 });
	expect(counts(await b.all())).toEqual({ x: 2, y: 2, z: 4 });
});

test("a rebuild that fails leaves the damaged file as it is, and the next call asks again", async () => {
	const directory = tempDirectory();
	writeFileSync(join(directory, "ledger.jsonl"), "null");
	let works = false;
	const ledger = openCounts(directory, {
		rebuild: async () => {
			if (!works) throw new Error("the engine does not answer");
			return { rows: new Map([["w", { count: 1 }]]) };
		},
	});
	await expect(ledger.all()).rejects.toThrow("the engine does not answer");
	expect(readFileSync(ledger.path, "utf8")).toBe("null");
	expect(readdirSync(directory)).toEqual(["ledger.jsonl"]);
	works = true;
	expect(counts(await ledger.all())).toEqual({ w: 1 });
});

test("a ledger damaged twice is set aside twice", async () => {
	const directory = tempDirectory();
	for (const content of ["first", "second"]) {
		writeFileSync(join(directory, "ledger.jsonl"), content);
		await openCounts(directory).all();
	}
	const kept = readdirSync(directory).filter((name) => name.startsWith("ledger.damaged-"));
	expect(kept.map((name) => readFileSync(join(directory, name), "utf8").split("\n")[0]).sort()).toEqual([
		"first",
		"second",
	]);
});

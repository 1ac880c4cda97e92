/**
 * What a commit to the ledger costs: with 10 rows and with 10,000, and beside one JSON document under a file lock.
 * Run: npx tsx bench/ledger.ts. Figures of one run are comparable with each other, not with those of other machines.
 */
import {
	closeSync,
	fdatasyncSync,
	fsyncSync,
	mkdtempSync,
	openSync,
	readFileSync,
	renameSync,
	rmSync,
	writeFileSync,
	writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import lockfile from "proper-lockfile";
import { Ledger } from "../src/ledger/ledger.js";
import { parseRow, rowKey, type SandboxRow } from "../src/ledger/row.js";
import { NamedLocks } from "../src/locks/named-locks.js";

const ROUNDS = 200;
const base = mkdtempSync(join(tmpdir(), "sandboxes-bench-"));

function row(n: number): SandboxRow {
	return {
		kind: "sandbox",
		prefix: "sbx",
		name: `workspace-${n}`,
		state: "ready",
		operationKey: "0f8fad5b-d9cb-469f-a165-70867728950e",
		epoch: n,
		engineId: "QWER:TYUI:OPAS:DFGH:JKLZ:XCVB:NMQW:ERTY:UIOP:ASDF:GHJK:LZXC",
		containerId: "c".repeat(64),
		workspaceId: `w-${n}`,
		env: { NODE_ENV: "test" },
		labels: {},
		at: Date.now(),
	};
}

async function open(rows: number): Promise<Ledger<SandboxRow>> {
	const ledger = new Ledger<SandboxRow>({ directory: join(base, `rows-${rows}`), parseRow });
	const all = Array.from({ length: rows }, (_, n) => ledger.commit(rowKey("sbx", `workspace-${n}`), 0, row(n)));
	await Promise.all(all);
	await ledger.compact();
	return ledger;
}

interface Subject {
	readonly title: string;
	readonly run: (round: number) => Promise<unknown>;
}

async function commits(rows: number): Promise<Subject> {
	const ledger = await open(rows);
	const key = rowKey("sbx", "workspace-3");
	return {
		title: `ledger, ${rows} rows: commit`,
		run: async (round) => {
			const stored = await ledger.get(key);
			if ((await ledger.commit(key, stored?.revision ?? 0, row(round))) === undefined) throw new Error("lost");
		},
	};
}

/** Reads, changes and writes one document, durably, as small tools do. */
function document(rows: number): Subject {
	const path = join(base, `document-${rows}.json`);
	writeFileSync(
		path,
		JSON.stringify(Object.fromEntries(Array.from({ length: rows }, (_, n) => [`workspace-${n}`, row(n)]))),
	);
	return {
		title: `JSON document + proper-lockfile + fsync, ${rows} rows: update`,
		run: async (round) => {
			const release = await lockfile.lock(path);
			const value = JSON.parse(readFileSync(path, "utf8"));
			value["workspace-3"] = row(round);
			const fd = openSync(`${path}.new`, "w", 0o600);
			writeSync(fd, JSON.stringify(value));
			fsyncSync(fd);
			closeSync(fd);
			renameSync(`${path}.new`, path);
			await release();
		},
	};
}

function append(): Subject {
	const fd = openSync(join(base, "append"), "a");
	const line = `\n${JSON.stringify(row(1))}`;
	return {
		title: "bare append + fdatasync",
		run: async () => {
			writeSync(fd, line);
			fdatasyncSync(fd);
		},
	};
}

async function reads(rows: number): Promise<Subject> {
	const ledger = await open(rows);
	return {
		title: `ledger, ${rows} rows: 100 x get, nothing new`,
		run: async () => {
			for (let n = 0; n < 100; n++) await ledger.get(rowKey("sbx", `workspace-${n % rows}`));
		},
	};
}

async function coldReads(rows: number): Promise<Subject> {
	await (await open(rows)).close();
	return {
		title: `ledger, ${rows} rows: open and get one`,
		run: async () => {
			const ledger = new Ledger<SandboxRow>({ directory: join(base, `rows-${rows}`), parseRow });
			await ledger.get(rowKey("sbx", "workspace-3"));
			await ledger.close();
		},
	};
}

function lock(): Subject {
	const locks = new NamedLocks(join(base, "locks"));
	return { title: "named lock: hold and give back", run: () => locks.hold("w", async () => {}) };
}

function bareLock(): Subject {
	const path = join(base, "bare");
	writeFileSync(path, "");
	return {
		title: "bare proper-lockfile: lock and unlock",
		run: async () => {
			const release = await lockfile.lock(path);
			await release();
		},
	};
}

async function batch(): Promise<Subject> {
	const ledger = new Ledger<SandboxRow>({ directory: join(base, "batch"), parseRow });
	await ledger.all();
	return {
		title: "ledger: 50 commits at once",
		run: async () => {
			await Promise.all(Array.from({ length: 50 }, (_, n) => ledger.update(rowKey("sbx", `w-${n}`), () => row(n))));
		},
	};
}

/** Interleaved, so that what else the machine does falls on all alike. */
async function measure(subjects: readonly Subject[], rounds: number): Promise<Map<string, number>> {
	const times = new Map<string, number[]>(subjects.map(({ title }) => [title, []]));
	for (let round = -5; round < rounds; round++) {
		for (const { title, run } of subjects) {
			const startedAt = performance.now();
			await run(round + 5);
			if (round >= 0) times.get(title)?.push(performance.now() - startedAt);
		}
	}
	const result = new Map<string, number>();
	for (const [title, samples] of times) {
		samples.sort((a, b) => a - b);
		const p50 = samples[Math.floor(samples.length / 2)] ?? Number.NaN;
		const p95 = samples[Math.floor(samples.length * 0.95)] ?? Number.NaN;
		console.log(`${title.padEnd(66)} p50 ${p50.toFixed(3).padStart(8)} ms   p95 ${p95.toFixed(3).padStart(8)} ms`);
		result.set(title, p50);
	}
	return result;
}

function ratio(result: Map<string, number>, title: string, above: string, below: string, bar?: number): void {
	const value = (result.get(above) ?? Number.NaN) / (result.get(below) ?? Number.NaN);
	const verdict = bar === undefined ? "" : value <= bar ? `  (bar ${bar}x: held)` : `  (bar ${bar}x: MISSED)`;
	console.log(`${title.padEnd(66)} ${value.toFixed(3)}x${verdict}`);
	if (bar !== undefined && value > bar) process.exitCode = 1;
}

try {
	const [small, hundred, large] = [await commits(10), await commits(100), await commits(10_000)];
	const [json, bare, fifty] = [document(100), append(), await batch()];
	const [read, locked, bareLocked] = [await reads(10_000), lock(), bareLock()];
	const result = await measure([small, hundred, large, json, bare, fifty, read, locked, bareLocked], ROUNDS);
	const cold = await measure([await coldReads(100), await coldReads(10_000)], 20);
	console.log();
	ratio(result, "commit at 10,000 rows : commit at 10", large.title, small.title, 2);
	ratio(result, "commit at 100 rows : JSON document at 100", hundred.title, json.title, 1);
	ratio(result, "commit at 100 rows : bare append + fdatasync", hundred.title, bare.title);
	ratio(result, "50 commits at once : one commit at 10", fifty.title, small.title);
	ratio(result, "100 reads at 10,000 rows : one commit at 10,000", read.title, large.title);
	ratio(
		cold,
		"open at 10,000 rows : open at 100",
		"ledger, 10000 rows: open and get one",
		"ledger, 100 rows: open and get one",
	);
	ratio(result, "named lock : bare proper-lockfile", locked.title, bareLocked.title);
} finally {
	rmSync(base, { recursive: true, force: true });
}

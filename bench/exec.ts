/** Commands: sessions and the engine path beside the docker command line, in one run, with the bars they are held to. `npx tsx bench/exec.ts`. */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MiB, type Sandbox, Sandboxes } from "../src/index.js";
import { command, compare, type Figure, quantile } from "./harness.js";

const image = process.env["BENCH_IMAGE"] ?? "debian:bookworm-slim";
const rounds = Number(process.env["BENCH_ROUNDS"] ?? 40);
const home = mkdtempSync(join(tmpdir(), "sandboxes-bench-"));
const root = join(home, "root");
const prefix = `benchexec${process.pid}`;
const sandboxes = new Sandboxes({ root, prefix });
const plain = new Sandboxes({ root, prefix, exec: "engine" });
const kib = "x".repeat(1023).concat("\n");
const met: string[] = [];

function bar(what: string, value: number, limit: number, side: "most" | "least"): void {
	const holds = side === "most" ? value <= limit : value >= limit;
	met.push(`  ${holds ? "met   " : "MISSED"} ${what.padEnd(52)} ${value.toFixed(3)} (at ${side} ${limit})`);
}

function ratio(figures: readonly Figure[], name: string, base: string): number {
	const p50 = (wanted: string): number => figures.find((figure) => figure.name === wanted)?.p50 ?? Number.NaN;
	return p50(name) / p50(base);
}

/** Runs a program with input and drops its output. */
function piped(input: string, file: string, ...args: string[]): Promise<void> {
	const { NODE_EXTRA_CA_CERTS: _left, ...env } = process.env;
	return new Promise((resolve, reject) => {
		const child = spawn(file, args, { env, stdio: ["pipe", "ignore", "ignore"] });
		child.on("error", reject).on("close", () => resolve());
		child.stdin.end(input);
	});
}

/** Reads all output of a program and gives its SHA-256. */
function hashed(file: string, ...args: string[]): Promise<string> {
	const { NODE_EXTRA_CA_CERTS: _left, ...env } = process.env;
	return new Promise((resolve, reject) => {
		const hash = createHash("sha256");
		const child = spawn(file, args, { env, stdio: ["ignore", "pipe", "ignore"] });
		child.stdout.on("data", (chunk: Buffer) => hash.update(chunk));
		child.on("error", reject).on("close", () => resolve(hash.digest("hex")));
	});
}

async function hashedBy(box: Sandbox, script: string): Promise<string> {
	const hash = createHash("sha256");
	await box.exec(script, { maxOutputBytes: 1024, onStdout: (chunk) => void hash.update(chunk) });
	return hash.digest("hex");
}

/** The engine tidies up for a while after an exec; that is not to fall on whoever comes next. */
const settle = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 100));

function inARow(run: () => Promise<unknown>): () => Promise<void> {
	return async () => {
		for (let i = 0; i < 10; i++) await run();
	};
}

/** Commands per second with so many at a time. */
async function throughput(run: () => Promise<unknown>, count: number, atOnce: number): Promise<number> {
	let left = count;
	const from = performance.now();
	const worker = async (): Promise<void> => {
		while (left-- > 0) await run();
	};
	await Promise.all(Array.from({ length: atOnce }, worker));
	return (count / (performance.now() - from)) * 1000;
}

try {
	const box = await sandboxes.create("box", { image, network: "none", memory: MiB(1024), cpus: 2 });
	const other = await plain.get("box");

	const one = await compare(
		"exec true, ten in a row",
		[
			{ name: "docker exec (CLI)", before: settle, run: inARow(() => command("docker", "exec", box.id, "true")) },
			{ name: "sandboxes, engine path", before: settle, run: inARow(() => other.exec(["true"])) },
			{ name: "sandboxes, session", before: settle, run: inARow(() => box.exec(["true"])) },
			{ name: "sandboxes, session, sh -c", before: settle, run: inARow(() => box.exec("true")) },
			{
				name: "sandboxes, session, with env",
				before: settle,
				run: inARow(() => box.exec(["true"], { env: { A: "1" } })),
			},
		],
		Math.ceil(rounds / 4),
	);
	bar("in a row: session / docker exec", ratio(one, "sandboxes, session", "docker exec (CLI)"), 0.05, "most");
	bar("in a row: engine path / docker exec", ratio(one, "sandboxes, engine path", "docker exec (CLI)"), 0.85, "most");

	await compare(
		"exec true, one after a pause of 100 ms",
		[
			{ name: "docker exec (CLI)", before: settle, run: () => command("docker", "exec", box.id, "true") },
			{ name: "sandboxes, engine path", before: settle, run: () => other.exec(["true"]) },
			{ name: "sandboxes, session", before: settle, run: () => box.exec(["true"]) },
		],
		rounds,
	);

	const input = await compare(
		"cat of 1 KiB of input",
		[
			{ name: "docker exec -i (CLI)", before: settle, run: () => piped(kib, "docker", "exec", "-i", box.id, "cat") },
			{ name: "sandboxes, engine path", before: settle, run: () => other.exec(["cat"], { stdin: kib }) },
			{ name: "sandboxes, session", before: settle, run: () => box.exec(["cat"], { stdin: kib }) },
		],
		rounds,
	);
	bar(
		"1 KiB of input: session / engine path",
		ratio(input, "sandboxes, session", "sandboxes, engine path"),
		0.25,
		"most",
	);

	const rates: Record<string, number[]> = { plain: [], session: [] };
	for (let round = 0; round < 5; round++) {
		rates["plain"]?.push(await throughput(() => other.exec(["true"]), 24, 4));
		rates["session"]?.push(await throughput(() => box.exec(["true"]), 400, 4));
	}
	const [slow, fast] = [quantile(rates["plain"] ?? [], 0.5), quantile(rates["session"] ?? [], 0.5)];
	console.log(`\n4 at a time: engine path ${slow.toFixed(1)}/s, session ${fast.toFixed(1)}/s`);
	bar("4 at a time: session / engine path, per second", fast / slow, 12, "least");

	const size = 128 * 1024 * 1024;
	const script = `head -c ${size} /work.bin`;
	await box.exec(`head -c ${size} /dev/urandom > /workspace/work.bin`);
	const much = script.replace("/work.bin", "/workspace/work.bin");
	const sums = new Set<string>();
	const big = await compare(
		"128 MiB of output",
		[
			{
				name: "docker exec (CLI)",
				run: async () => sums.add(await hashed("docker", "exec", box.id, "sh", "-c", much)),
			},
			{ name: "sandboxes, engine path", run: async () => sums.add(await hashedBy(other, much)) },
			{ name: "sandboxes, session", run: async () => sums.add(await hashedBy(box, much)) },
		],
		8,
		1,
	);
	bar(
		"128 MiB: speed of the session / docker exec",
		1 / ratio(big, "sandboxes, session", "docker exec (CLI)"),
		0.6,
		"least",
	);
	bar(
		"128 MiB: speed of the engine path / docker exec",
		1 / ratio(big, "sandboxes, engine path", "docker exec (CLI)"),
		0.6,
		"least",
	);
	bar("128 MiB: different sums seen", sums.size, 1, "most");

	const late: number[] = [];
	for (let round = 0; round < 15; round++) {
		const from = performance.now();
		await box.exec("trap '' TERM; sleep 60 & while :; do sleep 1; done", { timeoutMs: 300, killGraceMs: 500 });
		late.push((performance.now() - from - 800) / 1000);
	}
	console.log(
		`\ntime limit: result ${quantile(late, 0.5).toFixed(3)} s after the grace, p95 ${quantile(late, 0.95).toFixed(3)} s`,
	);
	bar("time limit: seconds from the grace's end to the result", quantile(late, 0.5), 0.3, "most");
	console.log(`\nBars\n${met.join("\n")}`);
} finally {
	await sandboxes.removeAll();
	rmSync(home, { recursive: true, force: true });
}

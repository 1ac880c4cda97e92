/** Times several ways of doing one thing in turn, so that the machine's noise falls on all alike; prints medians and ratios. */
import { execFile } from "node:child_process";

export interface Way {
	readonly name: string;
	/** Undone work before each round, not timed. */
	readonly before?: () => Promise<unknown>;
	readonly run: () => Promise<unknown>;
	/** After each round, not timed. */
	readonly after?: () => Promise<unknown>;
}

export interface Figure {
	readonly name: string;
	readonly p50: number;
	readonly p95: number;
	readonly ratio: number;
}

/** Runs the ways round-robin; the first is the one the others are compared with. */
export async function compare(title: string, ways: readonly Way[], rounds: number, warmUps = 2): Promise<Figure[]> {
	const times = ways.map(() => [] as number[]);
	for (let round = -warmUps; round < rounds; round++) {
		for (const [index, way] of ways.entries()) {
			await way.before?.();
			const start = process.hrtime.bigint();
			await way.run();
			const ms = Number(process.hrtime.bigint() - start) / 1e6;
			await way.after?.();
			if (round >= 0) times[index]?.push(ms);
		}
	}
	const base = quantile(times[0] ?? [], 0.5);
	const figures = ways.map(({ name }, index) => {
		const own = times[index] ?? [];
		return { name, p50: quantile(own, 0.5), p95: quantile(own, 0.95), ratio: quantile(own, 0.5) / base };
	});
	console.log(`\n${title} (n=${rounds})`);
	for (const { name, p50, p95, ratio } of figures) {
		console.log(
			`  ${name.padEnd(34)} p50 ${p50.toFixed(1).padStart(8)} ms   p95 ${p95.toFixed(1).padStart(8)} ms   ratio ${ratio.toFixed(3)}`,
		);
	}
	return figures;
}

export function quantile(values: readonly number[], q: number): number {
	const sorted = [...values].sort((a, b) => a - b);
	return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN;
}

/** Runs a program to its end and gives its standard output. The certificates of the surroundings are left out: they cost every start of Node. */
export function command(file: string, ...args: string[]): Promise<string> {
	const { NODE_EXTRA_CA_CERTS: _left, ...env } = process.env;
	return new Promise((resolve, reject) => {
		execFile(file, args, { env, maxBuffer: 256 * 1024 ** 2 }, (error, stdout) =>
			error ? reject(error) : resolve(stdout),
		);
	});
}

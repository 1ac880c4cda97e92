/** Runs the scripts of this folder as processes of their own. */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";

export interface Child {
	readonly process: ChildProcessByStdio<Writable, Readable, null>;
	readonly pid: number;
	/** Every line that the process has printed so far. */
	readonly lines: readonly string[];
	/** Resolves when the process has printed this line; rejects when it ends without it. */
	printed(line: string): Promise<void>;
	/** Resolves with the exit code, or the signal's name. */
	ended(): Promise<number | string>;
	send(line: string): void;
	kill(signal: NodeJS.Signals): void;
}

/** Starts `test/support/<script>` under tsx. */
export function startChild(script: string, args: readonly string[]): Child {
	const path = fileURLToPath(new URL(script, import.meta.url));
	const child = spawn(process.execPath, ["--import", "tsx", path, ...args], { stdio: ["pipe", "pipe", "inherit"] });
	const lines: string[] = [];
	const reader = createInterface({ input: child.stdout });
	reader.on("line", (line) => lines.push(line));
	const exit = once(child, "close").then(([code, signal]) => (code ?? signal) as number | string);
	return {
		process: child,
		pid: child.pid ?? 0,
		lines,
		async printed(line) {
			if (lines.includes(line)) return;
			await new Promise<void>((resolve, reject) => {
				const look = (): void => {
					if (lines.includes(line)) resolve();
				};
				reader.on("line", look);
				void exit.then((code) => {
					look();
					reject(new Error(`${script} ended (${code}) before it printed "${line}"`));
				});
			});
		},
		ended: () => exit,
		send: (line) => void child.stdin.write(`${line}\n`),
		kill: (signal) => void child.kill(signal),
	};
}

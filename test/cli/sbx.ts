/** Drives the built program as a user would, on a fleet of the test's own. */
import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from "node:child_process";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { makeFleet, type TestFleet } from "../support/fleet.js";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
export const SBX: string = join(ROOT, "dist/cli/sbx.js");

/** How a run of the program ended. */
export interface Ended {
	readonly status: number | null;
	readonly signal: NodeJS.Signals | null;
	readonly stdout: string;
	readonly stderr: string;
	/** Standard output as it came. */
	readonly bytes: Buffer;
}

export interface RunOptions {
	/** What stdin holds; `undefined` is `/dev/null`. */
	readonly stdin?: string | Buffer;
	readonly env?: Readonly<Record<string, string | undefined>>;
	/** Called with the process as soon as it runs. */
	readonly started?: (child: ChildProcessWithoutNullStreams) => void;
}

/** Builds the program unless it is newer than all of its sources. */
export function buildProgramOnce(): void {
	const built = statSync(SBX, { throwIfNoEntry: false })?.mtimeMs ?? 0;
	const newest = Math.max(
		...readdirSync(join(ROOT, "src"), { recursive: true, withFileTypes: true })
			.filter((entry) => entry.isFile())
			.map((entry) => statSync(join(entry.parentPath, entry.name)).mtimeMs),
		statSync(join(ROOT, "tsdown.config.ts")).mtimeMs,
	);
	if (built > newest) return;
	const { status, stdout, stderr } = spawnSync("npm", ["run", "build"], { cwd: ROOT, encoding: "utf8" });
	if (status !== 0) throw new Error(`the build failed:\n${stdout}\n${stderr}`);
}

/** Runs the program with these words and without any of the caller's own settings. */
export function runSbx(words: readonly string[], options: RunOptions = {}): Promise<Ended> {
	return runProgram(process.execPath, [SBX, ...words], options);
}

export function runProgram(program: string, words: readonly string[], options: RunOptions = {}): Promise<Ended> {
	const { NODE_EXTRA_CA_CERTS: _certs, SANDBOXES_ROOT: _root, SANDBOXES_PREFIX: _prefix, ...env } = process.env;
	return new Promise((resolve, reject) => {
		const child = spawn(program, words, {
			env: { ...env, ...options.env },
			stdio: [options.stdin === undefined ? "ignore" : "pipe", "pipe", "pipe"],
		}) as ChildProcessWithoutNullStreams;
		const out: Buffer[] = [];
		const err: Buffer[] = [];
		child.stdout.on("data", (chunk: Buffer) => out.push(chunk));
		child.stderr.on("data", (chunk: Buffer) => err.push(chunk));
		child.on("error", reject);
		child.on("close", (status, signal) => {
			const bytes = Buffer.concat(out);
			resolve({ status, signal, bytes, stdout: bytes.toString(), stderr: Buffer.concat(err).toString() });
		});
		if (options.stdin !== undefined) {
			child.stdin.on("error", () => {});
			child.stdin.end(options.stdin);
		}
		options.started?.(child);
	});
}

export interface CliFleet extends TestFleet {
	/** Runs the program on this fleet. */
	sbx(words: readonly string[], options?: RunOptions): Promise<Ended>;
	/** The same through a shell, where `sbx` is the program: pipes and redirections as a user writes them. */
	shell(line: string, options?: RunOptions): Promise<Ended>;
	/** What the program's environment is to be so that it works on this fleet. */
	readonly env: Readonly<Record<string, string>>;
}

export function makeCliFleet(): CliFleet {
	const fleet = makeFleet();
	const env = { SANDBOXES_ROOT: fleet.root, SANDBOXES_PREFIX: fleet.prefix };
	return {
		...fleet,
		env,
		sbx: (words, options = {}) => runSbx(words, { ...options, env: { ...env, ...options.env } }),
		shell: (line, options = {}) =>
			runProgram("sh", ["-c", `sbx() { '${process.execPath}' '${SBX}' "$@"; }\n${line}`], {
				...options,
				env: { ...env, ...options.env },
			}),
	};
}

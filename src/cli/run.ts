/** From words to a status: parse, carry out, and turn whatever fails into words. Nothing below ends the process. */
import { readFileSync } from "node:fs";
import { printFailure, toFailure } from "./failure.js";
import { globalsOf } from "./globals.js";
import { listenForSignals } from "./interruption.js";
import type { Io } from "./io.js";
import { Outlet } from "./outlet.js";
import { buildProgram, type Chosen } from "./program.js";
import { Session } from "./session.js";
import { splitWords, type Words } from "./words.js";

/** How long output that nobody takes is waited for after a signal. */
const LAST_FLUSH_MS = 1000;

/** Runs the program with these words (without `node` and the script) and gives its exit status. Never rejects. */
export async function run(argv: readonly string[], io: Io): Promise<number> {
	const out = new Outlet(io.stdout);
	const err = new Outlet(io.stderr);
	const interruption = listenForSignals(io.signals);
	let words: Words = { name: argv[0], own: argv, inner: undefined };
	try {
		let chosen: Chosen | undefined;
		const program = buildProgram({
			env: io.env,
			version: readVersion(),
			columns: out.columns,
			write: (text) => void out.write(text),
			writeError: (text) => void err.write(text),
			choose: (choice) => {
				chosen = choice;
			},
		});
		words = splitWords(argv, program);
		program.parse(words.own, { from: "user" });
		if (!chosen) return 0;
		return await carryOut(chosen, words, { io, out, err, signal: AbortSignal.any([interruption.signal, out.closed]) });
	} catch (error) {
		const failure = toFailure(error, words.name === "exec");
		if (io.env["SANDBOXES_DEBUG"] && error instanceof Error) await err.write(`${error.stack}\n`);
		await err.write(printFailure(failure, words.own.includes("--json")));
		return failure.status;
	} finally {
		await flush([out, err], interruption.signal);
		interruption.dispose();
		out.dispose();
		err.dispose();
	}
}

interface Surroundings {
	readonly io: Io;
	readonly out: Outlet;
	readonly err: Outlet;
	readonly signal: AbortSignal;
}

async function carryOut({ command, handler }: Chosen, words: Words, surroundings: Surroundings): Promise<number> {
	const session = new Session({ ...surroundings, globals: globalsOf(command, surroundings.io.env) });
	try {
		return await handler({ session, names: command.args, flags: command.opts() as never, inner: words.inner });
	} finally {
		session.clearProgress();
	}
}

/** The version of the package, from the sources and from the bundle alike. */
export function readVersion(): string {
	const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
	return (JSON.parse(text) as { version: string }).version;
}

/** Waits until the output has left; after a signal not for long. */
async function flush(outlets: readonly Outlet[], interrupted: AbortSignal): Promise<void> {
	const flushed = Promise.all(outlets.map((outlet) => outlet.flush()));
	let timer: NodeJS.Timeout | undefined;
	const patience = new Promise<void>((resolve) => {
		const start = (): void => {
			timer = setTimeout(resolve, LAST_FLUSH_MS);
		};
		if (interrupted.aborted) start();
		else interrupted.addEventListener("abort", start, { once: true });
	});
	await Promise.race([flushed, patience]);
	clearTimeout(timer);
}

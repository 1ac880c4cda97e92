/** From words to a status: parse, carry out, and turn whatever fails into words. Nothing below ends the process. */
import { readFileSync } from "node:fs";
import { allCommands } from "./commands.js";
import { printFailure, toFailure } from "./failure.js";
import { globalsOf } from "./globals.js";
import { listenForSignals } from "./interruption.js";
import type { Io } from "./io.js";
import { Outlet } from "./outlet.js";
import { readQuickly } from "./quick-reader.js";
import { Session } from "./session.js";
import type { Chosen, CommandSpec } from "./spec.js";
import { PASSING_COMMANDS } from "./statuses.js";
import { asksForJson, splitWords } from "./words.js";

/** How long output that nobody takes is waited for after a signal. */
const LAST_FLUSH_MS = 1000;

/** Runs the program with these words (without `node` and the script) and gives its exit status. Never rejects. */
export async function run(argv: readonly string[], io: Io): Promise<number> {
	const ending = new AbortController();
	const interrupted = new AbortController();
	listenForSignals(
		io.signals,
		(reason) => {
			ending.abort(reason);
			interrupted.abort();
		},
		(signal) => io.endBy(signal),
	);
	const out = new Outlet({
		open: () => io.stdout,
		writeAtOnce: (text) => io.writeAtOnce?.("stdout", text) ?? false,
		onClosed: (reason) => ending.abort(reason),
	});
	const err = new Outlet({
		open: () => io.stderr,
		writeAtOnce: (text) => io.writeAtOnce?.("stderr", text) ?? false,
		onClosed: (reason) => ending.abort(reason),
	});
	const specs = allCommands(io.env);
	const words = splitWords(argv, specs);
	const tell = async (error: unknown): Promise<number> => {
		const failure = toFailure(error, PASSING_COMMANDS.has(words.name ?? ""));
		if (io.env["SANDBOXES_DEBUG"] && error instanceof Error) await err.write(`${error.stack}\n`);
		await err.write(printFailure(failure, asksForJson(words, specs)));
		return failure.status;
	};
	let status: number;
	let told: unknown;
	try {
		const { spec, names, flags } = readQuickly(words.own, specs) ?? (await readSlowly(words.own, specs, out, err));
		const session = new Session({ io, out, err, globals: globalsOf(flags, io.env), signal: ending.signal });
		try {
			status = await spec.handler({ session, names, flags: flags as never, inner: words.inner });
		} finally {
			session.clearProgress();
		}
	} catch (error) {
		told = error;
		status = await tell(error);
	}
	await flush([out, err], interrupted.signal);
	if (!out.failure || told === out.failure) return status;
	status = await tell(out.failure);
	await flush([err], interrupted.signal);
	return status;
}

async function readSlowly(
	words: readonly string[],
	specs: readonly CommandSpec[],
	out: Outlet,
	err: Outlet,
): Promise<Chosen> {
	const { readWithCommander } = await import("./commander-reader.js");
	return readWithCommander(words, specs, {
		version: readVersion(),
		columns: out.columns,
		write: (text) => void out.write(text),
		writeError: (text) => void err.write(text),
	});
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

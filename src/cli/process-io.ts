/** The process as the program's surroundings. */
import { fstatSync, writeSync } from "node:fs";
import { isatty } from "node:tty";
import { printFailure, toFailure } from "./failure.js";
import type { Io } from "./io.js";

/** The streams are made when they are first asked for. */
export function processIo(): Io {
	return {
		get stdin() {
			return process.stdin;
		},
		get stdout() {
			return process.stdout;
		},
		get stderr() {
			return process.stderr;
		},
		env: process.env,
		signals: process,
		stdinKind,
	};
}

function stdinKind(): "terminal" | "data" | "nothing" {
	if (isatty(0)) return "terminal";
	try {
		const stat = fstatSync(0);
		// A character device that is no terminal is /dev/null or the like.
		return stat.isFile() || stat.isFIFO() || stat.isSocket() ? "data" : "nothing";
	} catch {
		return "nothing";
	}
}

/** Tells of an error that nothing caught, and gives the status for it. */
export function crash(error: unknown, argv: readonly string[]): number {
	const failure = toFailure(error, argv.includes("exec"));
	try {
		if (process.env["SANDBOXES_DEBUG"] && error instanceof Error) writeSync(2, `${error.stack}\n`);
		writeSync(2, printFailure(failure, argv.includes("--json")));
	} catch {
		// Nobody reads stderr.
	}
	return failure.status;
}

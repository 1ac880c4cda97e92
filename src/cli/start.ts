/** Runs the program in this process. Loaded only when there is more to do than to tell the version. */
import { writeSync } from "node:fs";
import { printFailure, toFailure } from "./failure.js";
import { processIo } from "./process-io.js";
import { run } from "./run.js";
import { PASSING_COMMANDS } from "./statuses.js";

/** The exit status of these words. An error that nothing caught ends the process here, in words as any other. */
export async function start(argv: readonly string[]): Promise<number> {
	process.once("uncaughtException", (error) => process.exit(crash(error, argv)));
	return run(argv, processIo());
}

function crash(error: unknown, argv: readonly string[]): number {
	const failure = toFailure(
		error,
		argv.some((word) => PASSING_COMMANDS.has(word)),
	);
	try {
		if (process.env["SANDBOXES_DEBUG"] && error instanceof Error) writeSync(2, `${error.stack}\n`);
		writeSync(2, printFailure(failure, argv.includes("--json")));
	} catch {
		// Nobody reads stderr.
	}
	return failure.status;
}

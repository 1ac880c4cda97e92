/** Runs the program in this process. Loaded only when there is more to do than to tell the version. */
import { writeSync } from "node:fs";
import { isatty } from "node:tty";
import { allCommands } from "./commands.js";
import { printFailure, toFailure } from "./failure.js";
import { endBy, processIo } from "./process-io.js";
import { run } from "./run.js";
import { PASSING_COMMANDS } from "./statuses.js";
import { asksForJson, splitWords } from "./words.js";

/** The exit status of these words. An error that nothing caught ends the process here, in words as any other. */
export async function start(argv: readonly string[]): Promise<number> {
	process.once("uncaughtException", (error) => process.exit(crash(error, argv)));
	// Left to itself Node would open its debugger.
	process.on("SIGUSR1", () => {});
	const terminals = [0, 1, 2].filter(isatty);
	const status = await run(argv, processIo());
	// Node aborts, with a native trace, when at its exit a terminal that it started with is gone.
	if (terminals.some((fd) => !isatty(fd))) endBy("SIGHUP");
	return status;
}

function crash(error: unknown, argv: readonly string[]): number {
	const specs = allCommands(process.env);
	const words = splitWords(argv, specs);
	const failure = toFailure(error, PASSING_COMMANDS.has(words.name ?? ""));
	try {
		if (process.env["SANDBOXES_DEBUG"] && error instanceof Error) writeSync(2, `${error.stack}\n`);
		writeSync(2, printFailure(failure, asksForJson(words, specs)));
	} catch {
		// Nobody reads stderr.
	}
	return failure.status;
}

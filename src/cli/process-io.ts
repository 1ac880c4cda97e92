/** The process as the program's surroundings. */
import { spawnSync } from "node:child_process";
import { fstatSync } from "node:fs";
import { isatty } from "node:tty";
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
		// Programs that move the cursor with line feeds need it. Without a `stty` they make do.
		passOutputUnchanged: () =>
			void spawnSync("stty", ["-opost"], { stdio: ["inherit", "ignore", "ignore"], timeout: 1000 }),
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

/** The process as the program's surroundings. */
import { spawnSync } from "node:child_process";
import { fstatSync, writeSync } from "node:fs";
import { isatty } from "node:tty";
import type { Io } from "./io.js";
import type { EndingSignal } from "./statuses.js";

/** What a pipe takes whole or not at all (PIPE_BUF). */
const AT_ONCE_BYTES = 4096;

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
		endBy,
		stdinKind,
		writeAtOnce,
		// Programs that move the cursor with line feeds need it. Without a `stty` they make do.
		passOutputUnchanged: () => {
			isHeld = true;
			spawnSync("stty", ["-opost"], { stdio: ["inherit", "ignore", "ignore"], timeout: 1000 });
		},
	};
}

/** Whether the terminal was made raw. */
let isHeld = false;

/** With no listener left the system's own handling is back. */
export function endBy(signal: EndingSignal): void {
	try {
		if (isHeld) process.stdin.setRawMode(false);
	} catch {
		// The terminal is gone.
	}
	process.removeAllListeners(signal);
	process.kill(process.pid, signal);
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

/** A full pipe is left to the stream, which can wait, and so is what cannot be written, of which the stream tells. */
function writeAtOnce(to: "stdout" | "stderr", text: string): boolean {
	const bytes = Buffer.from(text);
	if (bytes.length > AT_ONCE_BYTES) return false;
	try {
		return writeSync(to === "stdout" ? 1 : 2, bytes) === bytes.length;
	} catch {
		return false;
	}
}

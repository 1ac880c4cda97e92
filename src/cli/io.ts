/** The program's surroundings as an argument, so that nothing below `run()` reaches for the process itself. */
import type { Readable, Writable } from "node:stream";
import type { EndingSignal } from "./statuses.js";

/** Where the words come from; a terminal where `isTTY` is set. */
export interface Input extends Readable {
	readonly isTTY?: boolean;
	setRawMode?(isRaw: boolean): unknown;
}

/** Where answers or notes go; a terminal where `isTTY` is set. */
export interface Output extends Writable {
	readonly isTTY?: boolean;
	readonly columns?: number;
	readonly rows?: number;
}

/** The signals a process hears. */
export interface Signals {
	on(signal: EndingSignal | "SIGWINCH", listener: () => void): unknown;
	off(signal: "SIGWINCH", listener: () => void): unknown;
}

export interface Io {
	readonly stdin: Input;
	readonly stdout: Output;
	readonly stderr: Output;
	/** Writes to stdout or stderr before anything else has, all at once; `false` where that cannot be done without waiting. */
	writeAtOnce?(to: "stdout" | "stderr", text: string): boolean;
	readonly env: Readonly<Record<string, string | undefined>>;
	readonly signals: Signals;
	/** Ends the process by the signal's own action, with the terminal as it was before. */
	endBy(signal: EndingSignal): void;
	/** What stdin is: a terminal, something to be read, or nothing at all (`/dev/null`, closed). */
	stdinKind(): "terminal" | "data" | "nothing";
	/** Keeps the terminal from adding carriage returns until raw mode ends: Node's raw mode leaves that on. */
	passOutputUnchanged(): void;
}

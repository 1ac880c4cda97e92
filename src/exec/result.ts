/** What a command's end looks like to its caller. */
import type { CutRange, OutputKeeper } from "./output.js";

/** How a command ended. A status other than 0 is a result, not an error. */
export interface ExecResult<T extends string | Buffer = string> {
	/** Standard output, whole unless `truncated`. */
	readonly stdout: T;
	readonly stderr: T;
	/**
	 * The command's own status. 127: the program was not found; 126: it could not be executed (both explained on stderr);
	 * 128+n: it was ended by signal n. After a time limit, what the command made of it: 143 when SIGTERM ended it, 137 when
	 * it had to be killed, and any other status when it caught the signal and left by itself.
	 */
	readonly exitCode: number;
	/** The signal that ended the command. Left out where a shell does not tell it from a status above 128. */
	readonly signal?: string;
	/** Whether `timeoutMs` ended it. The output up to then is kept. */
	readonly timedOut: boolean;
	/**
	 * Whether the kernel killed it, or a process it started, because the sandbox's memory was used up. Told by the sandbox's own
	 * count of such kills; of commands that ran at the same time, it is those that were killed. Left out where it cannot be
	 * told: on a terminal, in an image without a shell, under a runtime that does not count.
	 */
	readonly oomKilled?: boolean;
	/** `true` when the sandbox's limit of processes was reached while it ran: some process could not be started. */
	readonly pidsExceeded?: boolean;
	/** Whether output is missing from the middle of `stdout` or `stderr`; `cut` says where. */
	readonly truncated: boolean;
	readonly cut?: { readonly stdout?: CutRange; readonly stderr?: CutRange };
	/** From the call until the end was known. */
	readonly durationMs: number;
	/** How much was written in all, kept or not. */
	readonly outputBytes: { readonly stdout: number; readonly stderr: number };
}

const SIGNALS: Readonly<Record<number, string>> = Object.fromEntries(
	(
		"HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT " +
		"CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS"
	)
		.split(" ")
		.map((name, index) => [index + 1, `SIG${name}`]),
);

/** The name that Linux gives a signal's number. */
export function signalName(number: number): string | undefined {
	return SIGNALS[number];
}

/** The names a command can be signalled by, without `SIG`. */
export const SIGNAL_NAMES: ReadonlySet<string> = new Set(Object.values(SIGNALS).map((name) => name.slice(3)));

export interface ResultParts {
	readonly stdout: OutputKeeper;
	readonly stderr: OutputKeeper;
	readonly exitCode: number;
	readonly signal: string | undefined;
	readonly timedOut: boolean;
	readonly oomKilled: boolean | undefined;
	readonly pidsExceeded: boolean | undefined;
	readonly durationMs: number;
	readonly encoding: "utf8" | "buffer";
}

/** The frozen result. */
export function toResult(parts: ResultParts): ExecResult<string> | ExecResult<Buffer> {
	const rest = {
		exitCode: parts.exitCode,
		...(parts.signal === undefined ? {} : { signal: parts.signal }),
		timedOut: parts.timedOut,
		...(parts.oomKilled === undefined ? {} : { oomKilled: parts.oomKilled }),
		...(parts.pidsExceeded ? { pidsExceeded: true } : {}),
		truncated: parts.stdout.truncated || parts.stderr.truncated,
		durationMs: Math.round(parts.durationMs),
		outputBytes: Object.freeze({ stdout: parts.stdout.totalBytes, stderr: parts.stderr.totalBytes }),
	};
	if (parts.encoding === "buffer") {
		const out = parts.stdout.toBytes();
		const err = parts.stderr.toBytes();
		return Object.freeze({ stdout: out.bytes, stderr: err.bytes, ...rest, ...cutOf(out.cut, err.cut) });
	}
	const out = parts.stdout.toText();
	const err = parts.stderr.toText();
	return Object.freeze({ stdout: out.text, stderr: err.text, ...rest, ...cutOf(out.cut, err.cut) });
}

function cutOf(
	stdout: CutRange | undefined,
	stderr: CutRange | undefined,
): { cut?: { readonly stdout?: CutRange; readonly stderr?: CutRange } } {
	if (!stdout && !stderr) return {};
	return { cut: Object.freeze({ ...(stdout ? { stdout } : {}), ...(stderr ? { stderr } : {}) }) };
}

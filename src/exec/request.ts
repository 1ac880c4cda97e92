/** What a caller may ask of a command, and the one place where it is checked: `unknown` in, a complete frozen request out. */
import { constants } from "node:buffer";
import { setMaxListeners } from "node:events";
import { asRecord, invalid, refuseUnknownKeys } from "../primitives/checks.js";
import { SandboxError } from "../primitives/errors.js";

export type { ExecResult } from "./result.js";

/** Where the sandbox's files are inside; relative working directories start here. */
export const WORKSPACE_PATH = "/workspace";
/** How long a command that was told to end has before it is killed, unless `killGraceMs` says otherwise. */
export const DEFAULT_KILL_GRACE_MS = 2000;
/** How much of each stream a result keeps, unless `maxOutputBytes` says otherwise. */
export const DEFAULT_MAX_OUTPUT_BYTES = 16 * 1024 * 1024;
/** The longest single argument or `NAME=value` the kernel takes (MAX_ARG_STRLEN less its closing NUL). */
export const MAX_ARGUMENT_BYTES = 128 * 1024 - 1;
/** All arguments and variables of a call together. */
export const MAX_ARGUMENTS_BYTES = 2 * 1024 * 1024;

const MAX_TIMER_MS = 2_147_483_647;

/** A shell command as one string (`sh -c`), or a program and its arguments exactly as given. */
export type Command = string | readonly string[];

/** What a command may read: all at once, or as it comes. Text is UTF-8. */
export type ExecInput =
	| string
	| Uint8Array
	| AsyncIterable<string | Uint8Array>
	| NodeJS.ReadableStream
	| ReadableStream<string | Uint8Array>;

/** Takes output as it comes. A returned promise holds the command's stream back until it settles. */
export type OutputListener = (chunk: Buffer) => void | Promise<void>;

/** How a command is run. */
export interface ExecOptions {
	/** Variables for this command, over those of the sandbox; `undefined` values count as not given. Names: no `=`, no white space, not empty. */
	readonly env?: Readonly<Record<string, string | undefined>>;
	/** Working directory: relative to `/workspace` (the default), or absolute. One that is not there is the error `bad_cwd`. */
	readonly cwd?: string;
	/** Left out: the command reads an end of file at once. */
	readonly stdin?: ExecInput;
	/** Milliseconds after which the command and all it started are ended; the result then says `timedOut`. Left out: no limit. */
	readonly timeoutMs?: number;
	/** Milliseconds between being told to end (SIGTERM) and being killed. Default 2000; 0 kills at once. */
	readonly killGraceMs?: number;
	/** Ends the command and all it started; the call then rejects with the signal's own reason. */
	readonly signal?: AbortSignal;
	/** `root`, `uid:gid`, or a name the image knows. Left out: the sandbox's user. */
	readonly user?: string;
	/** Every byte of standard output as it comes, also what the result leaves out. What it throws ends the command and rejects the call. */
	readonly onStdout?: OutputListener;
	/** The same for standard error. */
	readonly onStderr?: OutputListener;
	/** `utf8` (default): the result holds strings, bytes that are not UTF-8 become U+FFFD. `buffer`: it holds the bytes. */
	readonly encoding?: "utf8" | "buffer";
	/** How many bytes of each stream the result keeps: the first and the last half. Default 16 MiB. */
	readonly maxOutputBytes?: number;
	/** Runs the command on a terminal of this size; standard error is merged into standard output. */
	readonly terminal?: TerminalOptions;
}

export interface TerminalSize {
	readonly columns: number;
	readonly rows: number;
}

export interface TerminalOptions extends TerminalSize {
	/** Called once at the start with a function that tells the terminal a new size; what it gives back is called at the end. */
	readonly onResize?: (resize: (size: TerminalSize) => void) => (() => void) | undefined;
}

/** A checked request: every default is filled in. */
export interface ExecRequest {
	readonly argv: readonly string[];
	readonly env: Readonly<Record<string, string>>;
	/** Absolute. */
	readonly cwd: string;
	readonly stdin: ExecInput | undefined;
	readonly timeoutMs: number | undefined;
	readonly killGraceMs: number;
	readonly signal: AbortSignal | undefined;
	readonly user: string | undefined;
	readonly onStdout: OutputListener | undefined;
	readonly onStderr: OutputListener | undefined;
	readonly encoding: "utf8" | "buffer";
	readonly maxOutputBytes: number;
	readonly terminal: TerminalOptions | undefined;
}

const KNOWN: Readonly<Record<keyof ExecOptions, true>> = {
	env: true,
	cwd: true,
	stdin: true,
	timeoutMs: true,
	killGraceMs: true,
	signal: true,
	user: true,
	onStdout: true,
	onStderr: true,
	encoding: true,
	maxOutputBytes: true,
	terminal: true,
};

/** The names of all options of a command. */
export const EXEC_OPTION_NAMES: readonly string[] = Object.keys(KNOWN);

/** The checked form of a command and its options. Fails with `invalid_input` before anything happens. */
export function normaliseExec(rawCommand: unknown, rawOptions: unknown = {}): ExecRequest {
	const argv = checkedArgv(rawCommand);
	const options = asRecord("options", rawOptions);
	refuseUnknownKeys("exec", options, EXEC_OPTION_NAMES);
	const env = checkedEnv("env", options["env"]);
	refuseTooMuch(argv, env);
	return Object.freeze({
		argv,
		env,
		cwd: checkedCwd(options["cwd"]),
		stdin: checkedInput(options["stdin"]),
		timeoutMs:
			options["timeoutMs"] === undefined
				? undefined
				: checkedInteger("timeoutMs", options["timeoutMs"], 1, MAX_TIMER_MS, "leave it out for no limit"),
		killGraceMs: checkedInteger("killGraceMs", options["killGraceMs"] ?? DEFAULT_KILL_GRACE_MS, 0, 3_600_000),
		signal: checkedSignal(options["signal"]),
		user: checkedUser(options["user"]),
		onStdout: checkedListener("onStdout", options["onStdout"]),
		onStderr: checkedListener("onStderr", options["onStderr"]),
		encoding: checkedEncoding(options["encoding"]),
		maxOutputBytes: checkedInteger(
			"maxOutputBytes",
			options["maxOutputBytes"] ?? DEFAULT_MAX_OUTPUT_BYTES,
			0,
			constants.MAX_STRING_LENGTH,
		),
		terminal: checkedTerminalOptions(options["terminal"]),
	});
}

function checkedArgv(command: unknown): readonly string[] {
	if (typeof command === "string") {
		if (command.trim() === "") throw invalid("command", "a shell command that is not empty", command);
		refuseNul("command", command);
		return Object.freeze(["sh", "-c", command]);
	}
	if (!Array.isArray(command)) {
		throw invalid("command", "a shell command (string) or a program with its arguments (array of strings)", command);
	}
	if (command.length === 0) throw invalid("command", "a program and its arguments, at least one string", command);
	const argv = command.map((argument: unknown, index) => {
		if (typeof argument !== "string") throw invalid(`command[${index}]`, "a string", argument);
		refuseNul(`command[${index}]`, argument);
		return argument;
	});
	if (argv[0] === "") throw invalid("command[0]", "the name of a program", "");
	return Object.freeze(argv);
}

/** Variables as they may be handed to a process; `undefined` values are left out. `field` names them in the refusal. */
export function checkedEnv(field: string, raw: unknown): Readonly<Record<string, string>> {
	const env: Record<string, string> = Object.create(null);
	if (raw === undefined) return Object.freeze(env);
	for (const [name, value] of Object.entries(asRecord(field, raw))) {
		// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for.
		if (name === "" || /[=\s\x00-\x1f]/.test(name)) {
			throw invalid(`${field} name`, "a name without =, white space and control characters", name);
		}
		if (value === undefined) continue;
		if (typeof value !== "string") throw invalid(`${field}.${name}`, "a string", typeof value, "write String(value)");
		// A value may be a secret: it is never shown.
		if (value.includes("\0")) throw invalid(`${field}.${name}`, "a string without NUL", "<text with a NUL>");
		env[name] = value;
	}
	return Object.freeze(env);
}

function refuseTooMuch(argv: readonly string[], env: Readonly<Record<string, string>>): void {
	let total = 0;
	const add = (field: string, bytes: number): void => {
		total += bytes + 1;
		if (bytes > MAX_ARGUMENT_BYTES) tooMuch(field, `at most ${MAX_ARGUMENT_BYTES} bytes`, bytes);
	};
	for (const [index, argument] of argv.entries()) add(`command[${index}]`, Buffer.byteLength(argument));
	for (const [name, value] of Object.entries(env))
		add(`env.${name}`, Buffer.byteLength(name) + 1 + Buffer.byteLength(value));
	if (total > MAX_ARGUMENTS_BYTES)
		tooMuch("command", `at most ${MAX_ARGUMENTS_BYTES} bytes of arguments and env`, total);
}

function tooMuch(field: string, expected: string, bytes: number): never {
	throw new SandboxError("invalid_input", `${field}: expected ${expected}, got ${bytes} bytes`, {
		details: { field, expected, received: `${bytes} bytes` },
		hint: "hand large data over on stdin or in a file",
	});
}

function checkedCwd(raw: unknown): string {
	if (raw === undefined) return WORKSPACE_PATH;
	if (typeof raw !== "string" || raw === "") throw invalid("cwd", "a path", raw);
	refuseNul("cwd", raw);
	return raw.startsWith("/") ? raw : `${WORKSPACE_PATH}/${raw}`;
}

function checkedInput(raw: unknown): ExecInput | undefined {
	if (raw === undefined || typeof raw === "string" || raw instanceof Uint8Array) return raw;
	if (typeof raw === "object" && raw !== null && (Symbol.asyncIterator in raw || raw instanceof ReadableStream)) {
		// A stream that fails before it is read would end the process; its failure is met when it is read.
		if ("once" in raw && typeof raw.once === "function") raw.once("error", () => {});
		return raw as ExecInput;
	}
	throw invalid("stdin", "a string, bytes, or a stream of them", raw);
}

function checkedInteger(field: string, raw: unknown, least: number, most: number, tip?: string): number {
	if (typeof raw !== "number" || !Number.isSafeInteger(raw) || raw < least || raw > most) {
		throw invalid(field, `an integer from ${least} to ${most}`, raw, tip);
	}
	return raw;
}

function checkedSignal(raw: unknown): AbortSignal | undefined {
	if (raw === undefined) return raw;
	if (raw instanceof AbortSignal) {
		// One signal may end any number of commands at once; Node would warn of a leak from the eleventh on.
		setMaxListeners(0, raw);
		return raw;
	}
	throw invalid("signal", "an AbortSignal", raw);
}

function checkedUser(raw: unknown): string | undefined {
	if (raw === undefined) return undefined;
	if (typeof raw !== "string" || !/^[A-Za-z0-9_][A-Za-z0-9_.-]*(?::[A-Za-z0-9_][A-Za-z0-9_.-]*)?$/.test(raw)) {
		throw invalid("user", `"root", "uid:gid" or the name of a user`, raw);
	}
	// Larger numbers are refused by the engine, in a sentence where the output would be.
	if (raw.split(":").some((part) => /^\d+$/.test(part) && Number(part) > 2_147_483_647)) {
		throw invalid("user", "ids of at most 2147483647", raw);
	}
	return raw;
}

function checkedListener(field: string, raw: unknown): OutputListener | undefined {
	if (raw === undefined || typeof raw === "function") return raw as OutputListener | undefined;
	throw invalid(field, "a function", raw);
}

function checkedEncoding(raw: unknown): "utf8" | "buffer" {
	if (raw === undefined || raw === "utf8" || raw === "buffer") return raw ?? "utf8";
	throw invalid("encoding", `"utf8" or "buffer"`, raw);
}

function checkedTerminalOptions(raw: unknown): TerminalOptions | undefined {
	if (raw === undefined) return undefined;
	const { onResize, ...size } = asRecord("terminal", raw);
	const checked = checkedTerminal(size);
	if (onResize === undefined) return checked;
	if (typeof onResize !== "function") throw invalid("terminal.onResize", "a function", onResize);
	return checked && Object.freeze({ ...checked, onResize: onResize as NonNullable<TerminalOptions["onResize"]> });
}

/** A terminal size as the engine takes it. Fails with `invalid_input`. */
export function checkedTerminal(raw: unknown): TerminalSize | undefined {
	if (raw === undefined) return undefined;
	const size = asRecord("terminal", raw);
	refuseUnknownKeys("terminal", size, ["columns", "rows"]);
	return Object.freeze({
		columns: checkedInteger("terminal.columns", size["columns"], 1, 65_535),
		rows: checkedInteger("terminal.rows", size["rows"], 1, 65_535),
	});
}

function refuseNul(field: string, text: string): void {
	if (text.includes("\0")) throw invalid(field, "text without NUL (no process can be given one)", text);
}

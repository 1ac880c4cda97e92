/** What a caller may ask of a command that is spoken with while it runs, and the one place where it is checked. */
import { asRecord, invalid, refuseUnknownKeys } from "../primitives/checks.js";
import {
	checkedTerminal,
	EXEC_OPTION_NAMES,
	type ExecOptions,
	type ExecRequest,
	normaliseExec,
	type TerminalSize,
} from "./request.js";

/** How much of each stream the result of a spawned command keeps, unless `maxOutputBytes` says otherwise. */
export const DEFAULT_SPAWN_KEPT_BYTES = 64 * 1024;

/** How a command that is spoken with while it runs is started. As for `exec()`, but its output comes as streams. */
export interface SpawnOptions extends Omit<ExecOptions, "onStdout" | "onStderr" | "encoding" | "maxOutputBytes"> {
	/** Left out: what is written to the handle's `stdin`, until that is ended. `""`: the command reads an end of file at once. */
	readonly stdin?: NonNullable<ExecOptions["stdin"]>;
	/** How many bytes of each stream the result of `wait()` keeps: the first and the last half. Default 64 KiB. */
	readonly maxOutputBytes?: number;
}

/** How a terminal is opened. */
export interface TerminalSpawnOptions
	extends Omit<SpawnOptions, "stdin" | "terminal" | "maxOutputBytes">,
		Partial<TerminalSize> {}

const NOT_FOR_SPAWN: readonly string[] = ["onStdout", "onStderr", "encoding"];
const SPAWN_OPTIONS = EXEC_OPTION_NAMES.filter((name) => !NOT_FOR_SPAWN.includes(name));
const TERMINAL_OPTIONS = [
	...SPAWN_OPTIONS.filter((name) => !["stdin", "terminal", "maxOutputBytes"].includes(name)),
	"columns",
	"rows",
];

/** What a terminal runs when nothing is named: the best shell there is. */
const ANY_SHELL = ["sh", "-c", "command -v bash >/dev/null && exec bash; exec sh"];

/** The checked form of a command that is spoken with. Fails with `invalid_input` before anything happens. */
export function normaliseSpawn(command: unknown, rawOptions: unknown = {}): ExecRequest {
	const options = asRecord("options", rawOptions);
	refuseUnknownKeys("spawn", options, SPAWN_OPTIONS);
	return normaliseExec(command, {
		...options,
		maxOutputBytes: options["maxOutputBytes"] ?? DEFAULT_SPAWN_KEPT_BYTES,
	});
}

/** The same for a command on a terminal; without a command it is a shell. 80 by 24 unless said otherwise. */
export function normaliseTerminal(command: unknown, rawOptions: unknown = {}): ExecRequest {
	const options = asRecord("options", rawOptions);
	refuseUnknownKeys("terminal", options, TERMINAL_OPTIONS);
	const { columns = 80, rows = 24, env, ...rest } = options;
	if (env !== undefined) asRecord("env", env);
	return normaliseExec(command ?? ANY_SHELL, {
		...rest,
		env: { TERM: "xterm-256color", ...(env as object | undefined) },
		terminal: checkedTerminal({ columns, rows }),
		maxOutputBytes: 0,
	});
}

/** Which of two output streams is meant. */
export function checkedStream(raw: unknown): "stdout" | "stderr" {
	if (raw === "stdout" || raw === "stderr") return raw;
	throw invalid("stream", `"stdout" or "stderr"`, raw);
}

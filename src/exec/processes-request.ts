/** What may be asked of background processes, and the one place where it is checked. */
import { asRecord, invalid, refuseUnknownKeys } from "../primitives/checks.js";
import { type Command, type ExecRequest, normaliseExec } from "./request.js";
import { SIGNAL_NAMES } from "./result.js";

/** How much of each stream of a background process is kept, unless `maxLogBytes` says otherwise. */
export const DEFAULT_MAX_LOG_BYTES = 8 * 1024 * 1024;

/** How a background process is started. */
export interface ProcessOptions {
	/** By which it can be asked for too; need not be unique: the newest of that name is meant. Letters, digits, `.`, `-` and `_`. */
	readonly name?: string;
	/** Working directory: relative to `/workspace` (the default), or absolute. */
	readonly cwd?: string;
	/** Variables over those of the sandbox. They are not kept with what was asked for. */
	readonly env?: Readonly<Record<string, string | undefined>>;
	/** How many bytes of each stream are kept: always at least the newest half of that. Default 8 MiB. */
	readonly maxLogBytes?: number;
	/** Gives the start up; nothing of it runs then. It does not end a process that has been started. */
	readonly signal?: AbortSignal;
}

/** How output is read. */
export interface LogsOptions {
	/** Goes on with what comes, until the process has ended. Default false: what is there now. */
	readonly follow?: boolean;
	/** Begins with the last so many lines of each stream. Left out: with all that is kept. */
	readonly tail?: number;
	/** Ends the reading: the loop then throws the signal's own reason. */
	readonly signal?: AbortSignal;
}

export interface WaitOptions {
	/** Milliseconds after which the wait ends with the error `timeout`; the process goes on. Left out: no limit. */
	readonly timeoutMs?: number;
	readonly signal?: AbortSignal;
}

/** A checked request to start a process. */
export interface ProcessRequest {
	readonly name: string | undefined;
	readonly command: Command;
	readonly maxLogBytes: number;
	readonly exec: ExecRequest;
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/;
const MAX_TIMER_MS = 2_147_483_647;

export function normaliseProcess(command: unknown, rawOptions: unknown = {}): ProcessRequest {
	const options = asRecord("options", rawOptions);
	refuseUnknownKeys("processes.start", options, ["name", "cwd", "env", "maxLogBytes", "signal"]);
	const { name, maxLogBytes = DEFAULT_MAX_LOG_BYTES, ...rest } = options;
	if (name !== undefined) checkedName("name", name);
	return Object.freeze({
		name: name as string | undefined,
		maxLogBytes: integer("maxLogBytes", maxLogBytes, 64 * 1024, 1024 ** 4),
		exec: normaliseExec(command, rest),
		command: (Array.isArray(command) ? Object.freeze([...command]) : command) as Command,
	});
}

/** An id or a name as it may be asked for. */
export function checkedName(field: string, raw: unknown): string {
	if (typeof raw === "string" && NAME.test(raw)) return raw;
	throw invalid(field, "1 to 63 letters, digits, dots, dashes and underscores, beginning with a letter or digit", raw);
}

export function normaliseLogs(rawOptions: unknown = {}): Required<Pick<LogsOptions, "follow">> & LogsOptions {
	const options = asRecord("options", rawOptions);
	refuseUnknownKeys("processes.logs", options, ["follow", "tail", "signal"]);
	const { follow = false, tail } = options;
	if (typeof follow !== "boolean") throw invalid("follow", "a boolean", follow);
	return Object.freeze({
		follow,
		...(tail === undefined ? {} : { tail: integer("tail", tail, 0, Number.MAX_SAFE_INTEGER) }),
		...checkedSignal(options["signal"]),
	});
}

export function normaliseWait(rawOptions: unknown = {}): WaitOptions {
	const options = asRecord("options", rawOptions);
	refuseUnknownKeys("processes.wait", options, ["timeoutMs", "signal"]);
	const { timeoutMs } = options;
	return Object.freeze({
		...(timeoutMs === undefined ? {} : { timeoutMs: integer("timeoutMs", timeoutMs, 1, MAX_TIMER_MS) }),
		...checkedSignal(options["signal"]),
	});
}

/** The name of a signal without `SIG`. */
export function checkedSignalName(raw: unknown): string {
	const name = typeof raw === "string" ? raw.replace(/^SIG/, "") : "";
	if (!SIGNAL_NAMES.has(name)) throw invalid("signal", "the name of a signal, as TERM or SIGINT", raw);
	return name;
}

function integer(field: string, raw: unknown, least: number, most: number): number {
	if (typeof raw === "number" && Number.isSafeInteger(raw) && raw >= least && raw <= most) return raw;
	throw invalid(field, `an integer from ${least} to ${most}`, raw);
}

function checkedSignal(raw: unknown): { signal?: AbortSignal } {
	if (raw === undefined) return {};
	if (raw instanceof AbortSignal) return { signal: raw };
	throw invalid("signal", "an AbortSignal", raw);
}

/** What may be asked of a stateful shell, and the one place where it is checked. */
import { asRecord, invalid, refuseUnknownKeys } from "../primitives/checks.js";
import { type ExecOptions, type ExecRequest, normaliseExec } from "./request.js";
import { quoted } from "./runner.js";
import { shellCall } from "./shell-script.js";

/** The longest text of one command: a shell reads its requests byte by byte. */
export const MAX_SHELL_COMMAND_BYTES = 256 * 1024;

/** How a stateful shell is opened. */
export interface ShellOptions {
	/** Which shell the image has to have: `sh` (default) or `bash`. */
	readonly shell?: "sh" | "bash";
	/** Where it begins: relative to `/workspace` (the default), or absolute. */
	readonly cwd?: string;
	/** Variables over those of the sandbox. */
	readonly env?: Readonly<Record<string, string | undefined>>;
	/** `root`, `uid:gid`, or a name the image knows. Left out: the sandbox's user. */
	readonly user?: string;
	/** Ends the shell and all that it started. */
	readonly signal?: AbortSignal;
}

/** How one command is run in it. Commands read an end of file. */
export interface ShellRunOptions
	extends Pick<ExecOptions, "timeoutMs" | "killGraceMs" | "signal" | "onStdout" | "onStderr" | "maxOutputBytes"> {}

/** The checked form of the shell itself. Fails with `invalid_input` before anything happens. */
export function normaliseShell(rawOptions: unknown = {}): ExecRequest {
	const options = asRecord("options", rawOptions);
	refuseUnknownKeys("shell", options, ["shell", "cwd", "env", "user", "signal"]);
	const { shell = "sh", env, ...rest } = options;
	if (shell !== "sh" && shell !== "bash") throw invalid("shell", `"sh" or "bash"`, shell);
	if (env !== undefined) asRecord("env", env);
	const call = shellCall(shell);
	return normaliseExec(call.argv, { ...rest, env: { ...(env as object | undefined), ...call.env }, maxOutputBytes: 0 });
}

export interface ShellRunRequest {
	readonly text: string;
	readonly exec: ExecRequest;
}

/** The checked form of one command in it; an array is a program with exactly these arguments. */
export function normaliseShellRun(command: unknown, rawOptions: unknown = {}): ShellRunRequest {
	const options = asRecord("options", rawOptions);
	refuseUnknownKeys("shell.run", options, [
		"timeoutMs",
		"killGraceMs",
		"signal",
		"onStdout",
		"onStderr",
		"maxOutputBytes",
	]);
	const text = Array.isArray(command)
		? normaliseExec(command).argv.map(quoted).join(" ")
		: typeof command === "string"
			? command
			: undefined;
	if (text === undefined || text.trim() === "") throw invalid("command", "a shell command that is not empty", command);
	if (text.includes("\0")) throw invalid("command", "text without NUL (no process can be given one)", text);
	if (Buffer.byteLength(text) > MAX_SHELL_COMMAND_BYTES) {
		throw invalid("command", `at most ${MAX_SHELL_COMMAND_BYTES} bytes`, text, "put it into a file and run that");
	}
	return { text, exec: normaliseExec(["sh"], options) };
}

/** The funnel: whatever went wrong becomes one message, perhaps a hint, and a status. */
import { type AnySandboxError, isSandboxError } from "../index.js";
import { Interrupted } from "./interruption.js";
import { BrokenPipe, WriteFailed } from "./outlet.js";
import { STATUS, signalStatus } from "./statuses.js";
import { toLines } from "./text.js";

export interface Failure {
	readonly status: number;
	/** Left out where silence is the answer. */
	readonly message?: string;
	readonly hint?: string;
	/** What `--json` tells as `{ "error": … }`. */
	readonly record?: object;
}

/** How a failure ends the program; a command that passes a status on tells its own failures apart from that. */
export function toFailure(error: unknown, passesStatus: boolean): Failure {
	if (error instanceof BrokenPipe) return { status: STATUS.brokenPipe };
	if (error instanceof Interrupted) {
		const { message, signal } = error;
		return { status: signalStatus(signal), message, record: { code: "interrupted", message, signal } };
	}
	if (error instanceof WriteFailed) {
		const { message } = error;
		const status = passesStatus ? STATUS.ownFailure : STATUS.failed;
		return { status, message, record: { code: "output_failed", message } };
	}
	if (isCommanderError(error)) return toUsageFailure(error, passesStatus);
	if (isSandboxError(error)) {
		const { code, message, hint } = error;
		const status = passesStatus ? STATUS.ownFailure : statusOf(error);
		const record = error.toJSON();
		// One line says all there is: programs show it where an answer was expected.
		if (code === "engine_unavailable" && hint !== undefined)
			return { status, message: `${message} (hint: ${hint})`, record };
		return { status, message, ...(hint === undefined ? {} : { hint }), record };
	}
	const message = error instanceof Error ? describe(error) : String(error);
	return { status: passesStatus ? STATUS.ownFailure : STATUS.failed, message, record: { code: "internal", message } };
}

/** The lines for stderr: for people, or with `--json` one line for programs. */
export function printFailure(failure: Failure, json: boolean): string {
	if (json) return failure.record ? `${JSON.stringify({ error: failure.record })}\n` : "";
	if (failure.message === undefined) return "";
	const hint = failure.hint === undefined ? "" : `hint: ${toLines(failure.hint)}\n`;
	return `sbx: ${toLines(failure.message)}\n${hint}`;
}

function statusOf({ code, details }: AnySandboxError): number {
	if (code === "invalid_input") return STATUS.usage;
	// An address is a value like any other, refused before anything happened.
	if (code === "unsupported" && details.what.startsWith("engine address")) return STATUS.usage;
	return code === "engine_unavailable" ? STATUS.engineUnavailable : STATUS.failed;
}

interface CommanderFailure extends Error {
	readonly code: string;
	readonly exitCode: number;
	/** The words of the command that was called, where one was. */
	readonly command?: string;
}

function isCommanderError(error: unknown): error is CommanderFailure {
	return String(systemCode(error)).startsWith("commander.");
}

/** Commander's sentence, its suggestion as the hint. Help and version that were asked for are no failure. */
function toUsageFailure(error: CommanderFailure, passesStatus: boolean): Failure {
	if (error.exitCode === 0) return { status: STATUS.ok };
	const status = passesStatus ? STATUS.ownFailure : STATUS.usage;
	if (error.code === "commander.help") return { status };
	const [first = "", suggestion] = error.message.split("\n");
	const message = first.replace(/^error: /, "");
	const hint =
		suggestion?.replace(/^\(?Did you mean (.*?)\)?$/, "did you mean $1") ??
		(error.command ? `sbx ${error.command} --help tells what it takes` : "sbx --help lists the commands");
	return { status, message, hint, record: { code: "usage", message, hint } };
}

/** Errors of the system speak for themselves; of others the kind helps whoever reports them. */
function describe(error: Error): string {
	return "syscall" in error ? error.message : `internal error: ${error.name}: ${error.message}`;
}

/** The `code` that Node puts on errors of the system. */
export function systemCode(error: unknown): unknown {
	return error instanceof Error && "code" in error ? error.code : undefined;
}

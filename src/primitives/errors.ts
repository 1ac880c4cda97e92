/**
 * Errors: one class, a closed set of codes, typed details per code.
 * This room knows nothing of sandboxes beyond the names of what can go wrong.
 */

/** Why a call to the engine was refused, in our words (the engine's own status codes are ambiguous). */
export type EngineFailure =
	| "bad_request"
	| "name_taken"
	| "no_such_container"
	| "no_such_exec"
	| "no_such_image"
	| "no_such_network"
	| "not_running"
	| "paused"
	| "removal_in_progress"
	| "port_taken"
	| "network_in_use"
	| "server_error"
	| "protocol"
	| "other";

/** Why no engine could be reached. */
export type UnreachableCause =
	| "not_found"
	| "permission"
	| "refused"
	| "timeout"
	| "closed"
	| "not_an_engine"
	| "other";

/** What every code tells beside its message. */
export interface ErrorDetails {
	/** An argument was refused before anything happened. */
	readonly invalid_input: { readonly field: string; readonly expected: string; readonly received?: string };
	/** No sandbox of this name exists in this root and prefix; or no such background process in it. */
	readonly not_found: { readonly name: string; readonly process?: string };
	/** Something that is not ours stands where the sandbox would. It is never touched. */
	readonly conflict: { readonly name: string; readonly containerId?: string; readonly containerName?: string };
	/** This engine, image or platform cannot do what was asked. */
	readonly unsupported: { readonly what: string };
	/** A wait of the library itself came to its end. */
	readonly timeout: { readonly what: string; readonly timeoutMs: number };
	/** The container behind a handle no longer exists. */
	readonly gone: { readonly name: string; readonly id: string; readonly stdout?: string; readonly stderr?: string };
	/** The container behind a handle is there but does not run. */
	readonly stopped: {
		readonly name: string;
		readonly id: string;
		readonly state: string;
		readonly stdout?: string;
		readonly stderr?: string;
	};
	/** A command asked for a working directory that is not there or may not be entered. */
	readonly bad_cwd: { readonly name: string; readonly cwd: string };
	/** What became of a command cannot be known. */
	readonly exec_lost: { readonly name: string; readonly stdout?: string; readonly stderr?: string };
	/** A stateful shell has been closed, or has ended by a command in it. */
	readonly shell_ended: { readonly name: string };
	readonly engine_unavailable: { readonly address: string; readonly reason: UnreachableCause };
	readonly engine_failed: { readonly status: number; readonly failure: EngineFailure; readonly call: string };
	readonly image_unavailable: { readonly reference: string; readonly reason: string };
	readonly image_build_failed: { readonly reference: string; readonly step?: string; readonly log: string };
	/** The ledger could not be read or written. It is never overwritten. */
	readonly ledger_unreadable: { readonly path: string };
	readonly lock_timeout: { readonly lock: string; readonly timeoutMs: number; readonly holderPid?: number };
	readonly lock_lost: { readonly lock: string };
	/** A later operation on the same name has overtaken this one. */
	readonly stale_epoch: { readonly name: string; readonly epoch: number; readonly current?: number };
	/** Some of several removals failed; the others were carried out. */
	readonly release_failed: {
		readonly removed: readonly string[];
		readonly failed: readonly { readonly name: string; readonly error: string }[];
	};
	/** A workspace directory cannot be used as it is. */
	readonly workspace_unusable: { readonly path: string; readonly reason: string };
}

/** Every code a {@link SandboxError} can have. */
export type ErrorCode = keyof ErrorDetails;

/** Whether the same call may succeed when it is simply made again later. */
const RETRYABLE: Readonly<Record<ErrorCode, boolean>> = {
	invalid_input: false,
	not_found: false,
	conflict: false,
	unsupported: false,
	timeout: true,
	gone: false,
	stopped: false,
	bad_cwd: false,
	exec_lost: false,
	shell_ended: false,
	engine_unavailable: true,
	engine_failed: false,
	image_unavailable: true,
	image_build_failed: false,
	ledger_unreadable: false,
	lock_timeout: true,
	lock_lost: true,
	stale_epoch: true,
	release_failed: true,
	workspace_unusable: false,
};

/** All codes, in the order of the table. */
export const ERROR_CODES: readonly ErrorCode[] = Object.keys(RETRYABLE) as ErrorCode[];

const BRAND = Symbol.for("sandboxes.SandboxError");

export interface SandboxErrorOptions<C extends ErrorCode> {
	readonly details: ErrorDetails[C];
	/** What the reader can do next, as one line. */
	readonly hint?: string;
	readonly cause?: unknown;
}

/**
 * The one error class of this library.
 *
 * `code` says what kind of failure it is, `details` what belongs to that code, `retryable` whether the same
 * call may succeed later, `hint` what to do next. The message names what was attempted and what stood in the way,
 * and never holds a secret. Test with {@link isSandboxError}, which also works across copies of the package.
 */
export class SandboxError<C extends ErrorCode = ErrorCode> extends Error {
	override readonly name = "SandboxError";
	readonly code: C;
	readonly details: ErrorDetails[C];
	readonly retryable: boolean;
	readonly hint: string | undefined;

	constructor(code: C, message: string, options: SandboxErrorOptions<C>) {
		super(message, options.cause === undefined ? undefined : { cause: options.cause });
		this.code = code;
		this.details = options.details;
		this.retryable = RETRYABLE[code];
		this.hint = options.hint;
		Object.defineProperty(this, BRAND, { value: true, enumerable: false });
	}

	/** A plain record for `--json` and logs; the cause is left out. */
	toJSON(): { code: C; message: string; retryable: boolean; details: ErrorDetails[C]; hint?: string } {
		return {
			code: this.code,
			message: this.message,
			retryable: this.retryable,
			details: this.details,
			...(this.hint === undefined ? {} : { hint: this.hint }),
		};
	}
}

/** A {@link SandboxError} whose `details` narrow with its `code`. */
export type AnySandboxError = { [C in ErrorCode]: SandboxError<C> }[ErrorCode];

/**
 * Whether a value is a {@link SandboxError}, of the given code if one is given.
 *
 * @example
 * ```ts
 * import { SandboxError, isSandboxError } from "sandboxes";
 * const error: unknown = new SandboxError("not_found", "no sandbox web", { details: { name: "web" } });
 * if (isSandboxError(error, "not_found")) console.log(error.details.name); // web
 * ```
 */
export function isSandboxError<C extends ErrorCode>(value: unknown, code: C): value is SandboxError<C>;
export function isSandboxError(value: unknown): value is AnySandboxError;
export function isSandboxError(value: unknown, code?: ErrorCode): boolean {
	if (typeof value !== "object" || value === null || !(BRAND in value)) return false;
	return code === undefined || (value as { code?: unknown }).code === code;
}

/** The message of anything that was thrown. */
export function messageOf(thrown: unknown): string {
	return thrown instanceof Error ? thrown.message : String(thrown);
}

/** The `code` property that Node puts on system errors (`ENOENT`, `EACCES` …), if there is one. */
export function systemCode(thrown: unknown): string | undefined {
	const code = (thrown as { code?: unknown } | null | undefined)?.code;
	return typeof code === "string" ? code : undefined;
}

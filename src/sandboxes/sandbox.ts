/** The handle: one container of one sandbox, as a caller holds it. Local and idempotent: leaving it ends nothing. */
import type { PublishedPort } from "../engine/engine.js";
import type { ExecOptions, ExecResult } from "../exec/request.js";
import type { Context } from "./context.js";
import { findRow } from "./context.js";
import { HOME_TARGET } from "./defaults.js";
import type { Outcome } from "./events.js";
import type { Recorded } from "./labels.js";
import type { CallOptions } from "./options.js";
import type { Reason } from "./reasons.js";
import { normaliseCall } from "./request.js";

/** What a handle knows from the moment it was made. */
export interface SandboxFacts {
	readonly id: string;
	readonly name: string;
	readonly imageId: string;
	readonly ports: readonly PublishedPort[];
	/** The container's own environment: names that a shell drops are passed to each command again. */
	readonly containerEnv: Readonly<Record<string, string>>;
	readonly recorded: Recorded;
	readonly outcome: Outcome;
	readonly reasons: readonly Reason[];
	/** Whether the workspace was made by the call that gave the handle. */
	readonly fresh: boolean;
}

/**
 * A sandbox, as `create()` and `get()` give it.
 *
 * The handle is of the container it was made for: after a rebuild or a removal by anyone its calls reject with `gone`,
 * and never act on what took the place. Nothing is held open by it; it may be dropped, or used with `await using`, and
 * the sandbox goes on either way.
 */
export class Sandbox implements AsyncDisposable {
	/** The container's id. */
	readonly id: string;
	readonly name: string;
	/** The reference by which the image was asked for. */
	readonly image: string;
	/** The image's content id, `sha256:…`. */
	readonly imageId: string;
	/** When the container was made; a rebuild makes a new one. */
	readonly createdAt: Date;
	/** The workspace on the host: what is `/workspace` inside. Code inside controls it: do not follow its links. */
	readonly workspaceDir: string;
	/** What the call that gave this handle did. */
	readonly outcome: Outcome;
	/** Whether that call made the sandbox with an empty workspace. */
	readonly created: boolean;
	/** Why it was made, rebuilt or replaced; empty when it was served or started. */
	readonly reasons: readonly Reason[];
	/** The published ports, with the host's side of each. */
	readonly ports: readonly PublishedPort[];
	readonly #context: Context;
	readonly #recorded: Recorded;
	readonly #containerEnv: Readonly<Record<string, string>>;

	/** @internal */
	constructor(context: Context, facts: SandboxFacts) {
		this.#context = context;
		this.#recorded = facts.recorded;
		this.#containerEnv = facts.containerEnv;
		this.id = facts.id;
		this.name = facts.name;
		this.image = facts.recorded.image;
		this.imageId = facts.imageId;
		this.createdAt = new Date(facts.recorded.createdAtMs);
		this.workspaceDir = context.workspaces.workspacePath(facts.recorded.workspaceId);
		this.outcome = facts.outcome;
		this.created = facts.fresh;
		this.reasons = facts.reasons;
		this.ports = facts.ports;
	}

	/**
	 * Runs a command in `/workspace` and gives its result when it has ended. A string is a shell command, an array a program
	 * with exactly these arguments. A non-zero exit is a result, and so is a time limit (`timedOut: true`).
	 *
	 * The environment is the image's, then what `create()` stated last, then `options.env`. A time limit or an abort ends the
	 * command's whole process tree and nothing else. A child left in the background does not hold the result back, and goes on.
	 *
	 * Throws `invalid_input` (before anything runs), `gone`, `stopped` (with the output so far), `bad_cwd`, `exec_lost`,
	 * `engine_unavailable`; rejects with `signal.reason` after an abort.
	 */
	exec(
		command: string | readonly string[],
		options: ExecOptions & { readonly encoding: "buffer" },
	): Promise<ExecResult<Buffer>>;
	exec(command: string | readonly string[], options?: ExecOptions): Promise<ExecResult>;
	async exec(command: string | readonly string[], options: ExecOptions = {}): Promise<ExecResult | ExecResult<Buffer>> {
		const request = this.#context.commands.normalise(command, options);
		const row = await findRow(this.#context, this.name);
		const asOther = request.user !== undefined && request.user !== this.#recorded.shape.user;
		const env = {
			...(asOther ? { HOME: request.user === "root" ? "/root" : HOME_TARGET } : {}),
			...row?.env,
			...request.env,
		};
		return this.#context.commands.run({ id: this.id, name: this.name, env, containerEnv: this.#containerEnv }, request);
	}

	/**
	 * Stops the container: commands in flight are told to end, and killed after `stopGraceMs`. Container, workspace and home
	 * are kept; the next `create()` starts the same container with all that was installed in it. Stopped or gone already is
	 * no error. Throws `engine_unavailable`, `engine_failed`.
	 */
	async stop(options: CallOptions = {}): Promise<void> {
		const call = normaliseCall(options);
		const { engine, emit } = this.#context;
		const row = await findRow(this.#context, this.name);
		const graceMs = row?.stopGraceMs ?? this.#recorded.stopGraceMs;
		const record = await engine.inspectContainer(this.id, call);
		if (!record) return;
		if (record.state === "paused") await engine.unpauseContainer(this.id, call);
		if (await engine.stopContainer(this.id, graceMs, call)) emit({ type: "stopped", name: this.name, id: this.id });
	}

	/** Does nothing to the sandbox: a name is shared, so leaving a block never ends it. */
	async [Symbol.asyncDispose](): Promise<void> {}
}

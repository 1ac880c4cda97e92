/**
 * One change to a sandbox, as the ledger sees it: the row says what is meant before the engine is asked, and every
 * further step is written only while the row still names this operation.
 */
import { randomUUID } from "node:crypto";
import type { SandboxRow } from "../ledger/row.js";
import { SandboxError } from "../primitives/errors.js";
import { thisOwner } from "../primitives/owner.js";
import { type Context, keyOf } from "./context.js";

/** What an operation records when it begins; the rest follows from the context. */
export type Intent = Pick<SandboxRow, "workspaceId" | "env" | "labels"> &
	Partial<Pick<SandboxRow, "shape" | "stopGraceMs" | "containerId" | "replaces" | "libc" | "createdAtMs">>;

export class Operation {
	readonly key: string;
	readonly epoch: number;
	/** The row as it stood before; a released one counts as none. */
	readonly before: SandboxRow | undefined;
	readonly #context: Context;
	readonly #name: string;
	#revision: number;
	#row: SandboxRow;

	private constructor(
		context: Context,
		name: string,
		before: SandboxRow | undefined,
		revision: number,
		row: SandboxRow,
	) {
		this.#context = context;
		this.#name = name;
		this.#revision = revision;
		this.#row = row;
		this.key = row.operationKey;
		this.epoch = row.epoch;
		this.before = before;
	}

	get row(): SandboxRow {
		return this.#row;
	}

	/** Writes the intent. Another operation of the same name that wins meanwhile makes this one `stale_epoch`. */
	static async begin(
		context: Context,
		name: string,
		state: "intent" | "releasing",
		intent: Intent,
	): Promise<Operation> {
		const engineId = await context.engineId();
		const epoch = await context.ledger.nextEpoch();
		const current = await context.ledger.get(keyOf(context, name));
		const row: SandboxRow = {
			...intent,
			kind: "sandbox",
			prefix: context.fleet.prefix,
			name,
			state,
			operationKey: randomUUID(),
			epoch,
			owner: thisOwner(),
			engineId,
			at: context.clock.nowMs(),
		};
		const revision = await context.ledger.commit(keyOf(context, name), current?.revision ?? 0, row);
		if (revision === undefined) throw overtaken(name, epoch);
		const before = current && current.row.state !== "released" ? current.row : undefined;
		return new Operation(context, name, before, revision, row);
	}

	/** Writes the next step, unless another operation has overtaken this one: `stale_epoch`. */
	async advance(state: SandboxRow["state"], change: Partial<SandboxRow> = {}): Promise<void> {
		const { error: _error, ...row } = this.#row;
		const next: SandboxRow = { ...row, ...change, state, at: this.#context.clock.nowMs() };
		const revision = await this.#context.ledger.commit(keyOf(this.#context, this.#name), this.#revision, next);
		if (revision === undefined) throw overtaken(this.#name, this.epoch);
		this.#revision = revision;
		this.#row = next;
	}

	/** Puts the row back to what it said before this operation, or ends it. Quiet when overtaken: the row is another's then. */
	async restore(row: SandboxRow | undefined): Promise<void> {
		const next: SandboxRow = row ?? { ...this.#row, state: "released", at: this.#context.clock.nowMs() };
		await this.#context.ledger.commit(keyOf(this.#context, this.#name), this.#revision, next);
	}

	/**
	 * Whether a container that this operation made may be deleted by it: the row still names this operation, or it names
	 * neither this operation nor that container. Otherwise somebody has adopted it.
	 */
	async mayDelete(containerId: string): Promise<boolean> {
		const current = await this.#context.ledger.get(keyOf(this.#context, this.#name));
		return current?.row.operationKey === this.key || current?.row.containerId !== containerId;
	}
}

function overtaken(name: string, epoch: number): SandboxError<"stale_epoch"> {
	return new SandboxError("stale_epoch", `sandbox ${name}: another operation has overtaken this one`, {
		details: { name, epoch },
		hint: "repeat the call; it will find what the other one made",
	});
}

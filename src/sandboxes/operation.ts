/**
 * One change to a sandbox, as the ledger sees it: the row says what is meant before the engine is asked, and every
 * further step is written only while the row is still as this operation left it.
 */
import { randomUUID } from "node:crypto";
import type { Stored } from "../ledger/ledger.js";
import type { SandboxRow } from "../ledger/row.js";
import { SandboxError } from "../primitives/errors.js";
import { thisOwner } from "../primitives/owner.js";
import { type Context, keyOf, toLive } from "./context.js";

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

	private constructor(context: Context, before: SandboxRow | undefined, revision: number, row: SandboxRow) {
		this.#context = context;
		this.#name = row.name;
		this.#revision = revision;
		this.#row = row;
		this.key = row.operationKey;
		this.epoch = row.epoch;
		this.before = before;
	}

	get row(): SandboxRow {
		return this.#row;
	}

	/**
	 * Writes what is meant, provided the row is still the one that was `seen` before the engine was looked at. Otherwise another
	 * operation has come between, and this one is `stale_epoch`: what it saw is no longer so.
	 */
	static async begin(
		context: Context,
		name: string,
		state: "intent" | "releasing",
		intent: Intent,
		seen: Stored<SandboxRow> | undefined,
	): Promise<Operation> {
		const engineId = await context.engineId();
		const epoch = await context.ledger.nextEpoch(seen?.row.epoch ?? 0);
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
		const revision = await context.ledger.commit(keyOf(context, name), seen?.revision ?? 0, row);
		if (revision === undefined) throw overtaken(name, epoch);
		return new Operation(context, toLive(seen), revision, row);
	}

	/** Writes the next step, unless another operation has overtaken this one: `stale_epoch`. */
	async advance(state: SandboxRow["state"], change: Partial<SandboxRow> = {}): Promise<void> {
		const { error: _error, ...row } = this.#row;
		await this.#commit({ ...row, ...change, state, at: this.#context.clock.nowMs() });
	}

	/** Puts the row back to what it said before this operation. */
	async restore(row: SandboxRow): Promise<void> {
		await this.#commit(row);
	}

	/** Whether the row is still as this operation left it. */
	async holds(): Promise<boolean> {
		const current = await this.#context.ledger.get(keyOf(this.#context, this.#name));
		return current?.revision === this.#revision;
	}

	/**
	 * Whether a container that this operation made may be deleted by it: the row is still this operation's, or it does not
	 * name that container. Otherwise somebody has adopted it, and with it given the row another operation key.
	 */
	async mayDelete(containerId: string): Promise<boolean> {
		const current = await this.#context.ledger.get(keyOf(this.#context, this.#name));
		return current?.row.operationKey === this.key || current?.row.containerId !== containerId;
	}

	async #commit(row: SandboxRow): Promise<void> {
		const revision = await this.#context.ledger.commit(keyOf(this.#context, this.#name), this.#revision, row);
		if (revision === undefined) throw overtaken(this.#name, this.epoch);
		this.#revision = revision;
		this.#row = row;
	}
}

/** Whether a row says that its sandbox is being removed: its workspace is never used again. */
export function isEnding(row: SandboxRow | undefined): boolean {
	return row?.state === "releasing" || row?.state === "release_failed";
}

export function overtaken(name: string, epoch: number): SandboxError<"stale_epoch"> {
	return new SandboxError("stale_epoch", `sandbox ${name}: another operation has overtaken this one`, {
		details: { name, epoch },
		hint: "repeat the call; it will find what the other one made",
	});
}

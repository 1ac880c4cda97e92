/** What is known of a name at one moment: the ledger's row first, then what the engine shows. Decisions rest on one look. */
import type { Stored } from "../ledger/ledger.js";
import type { SandboxRow } from "../ledger/row.js";
import type { HeldLock } from "../locks/named-locks.js";
import { type Context, keyOf } from "./context.js";
import type { Observed } from "./decide.js";
import { observeAll } from "./observe.js";

export interface Look {
	/** Read before the engine was asked: who changes the row after that makes every step on this look void. */
	readonly stored: Stored<SandboxRow> | undefined;
	readonly observed: Observed;
}

export async function look(context: Context, name: string, signal: AbortSignal | undefined): Promise<Look> {
	const stored = await context.ledger.get(keyOf(context, name));
	return { stored, observed: await observeAll(context, name, signal) };
}

/** What ends work that is under way. */
export interface Guard {
	/** Aborts when the caller does or the name's lock is lost. */
	readonly signal: AbortSignal;
	/** The name's lock itself: for steps after the point of no return, and before one that cannot be taken back. */
	readonly lock: HeldLock;
}

/** What every operation on this fleet works with: made once, when the first call needs it. */
import type { Engine } from "../engine/engine.js";
import type { Commands } from "../exec/commands.js";
import type { Images } from "../images/images.js";
import type { Ledger, Stored } from "../ledger/ledger.js";
import { rowKey, type SandboxRow } from "../ledger/row.js";
import type { NamedLocks } from "../locks/named-locks.js";
import type { Clock } from "../primitives/clock.js";
import type { Root } from "../workspace/root.js";
import type { Workspaces } from "../workspace/workspaces.js";
import type { EventSink } from "./events.js";
import type { Fleet } from "./labels.js";

export interface Context {
	readonly engine: Engine;
	readonly root: Root;
	readonly fleet: Fleet;
	readonly ledger: Ledger<SandboxRow>;
	readonly locks: NamedLocks;
	readonly workspaces: Workspaces;
	readonly images: Images;
	readonly commands: Commands;
	readonly clock: Clock;
	readonly emit: EventSink;
	/** The daemon's own id, asked once. */
	engineId(): Promise<string>;
}

/** The key of a sandbox's row, and of its lock. */
export function keyOf(context: Context, name: string): string {
	return rowKey(context.fleet.prefix, name);
}

/** The row of a sandbox that is meant to be there; a released one is none. */
export function toLive(stored: Stored<SandboxRow> | undefined): SandboxRow | undefined {
	return stored && stored.row.state !== "released" ? stored.row : undefined;
}

/** {@link toLive} of what the ledger says now. */
export async function findRow(context: Context, name: string): Promise<SandboxRow | undefined> {
	return toLive(await context.ledger.get(keyOf(context, name)));
}

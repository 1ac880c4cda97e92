/** The row of a sandbox: what was meant with it, and by whom. */
import type { Json } from "../primitives/canonical-json.js";
import { type Owner, parseOwner } from "../primitives/owner.js";

/**
 * - `reserved`: a workspace is set aside for the name; there is no container.
 * - `intent`: a container is about to be made, or may have been.
 * - `created`: its id is known; it was not started by the operation of this row.
 * - `ready`: it is there and was started.
 * - `releasing`: it is being removed, or may have been.
 * - `released`: container and workspace are gone; the row keeps the epoch.
 * - `release_failed`: a removal did not come to its end; it is tried again.
 * - `unknown`: the engine that could tell did not answer, or is another one.
 */
export type SandboxState =
	| "reserved"
	| "intent"
	| "created"
	| "ready"
	| "releasing"
	| "released"
	| "release_failed"
	| "unknown";

export interface SandboxRow {
	readonly kind: "sandbox";
	readonly prefix: string;
	readonly name: string;
	readonly state: SandboxState;
	/** Random, per operation; also a label of the container that it makes. */
	readonly operationKey: string;
	/** From the ledger's counter, one per operation. */
	readonly epoch: number;
	/** Who is at work on it; left out when nobody is. */
	readonly owner?: Owner;
	/** The daemon's own id. */
	readonly engineId?: string;
	readonly containerId?: string;
	/** Id of the container that is being replaced. */
	readonly replaces?: string;
	readonly workspaceId: string;
	readonly shape?: { readonly [key: string]: Json | undefined };
	readonly env: Readonly<Record<string, string>>;
	readonly labels: Readonly<Record<string, string>>;
	readonly stopGraceMs?: number;
	readonly libc?: string;
	readonly createdAtMs?: number;
	/** When this state was written, in milliseconds since 1970. */
	readonly at: number;
	readonly error?: string;
}

/**
 * Where a row may go from each state. Every state may also be written again (another owner, another epoch, newer fields).
 * Only `released` rows and reservations may be deleted.
 */
const MOVES: Readonly<Record<SandboxState | "none", readonly (SandboxState | "none")[]>> = {
	none: ["reserved", "intent", "ready", "releasing"],
	reserved: ["intent", "releasing", "released", "ready", "none"],
	intent: ["created", "ready", "reserved", "releasing", "released", "unknown"],
	created: ["ready", "intent", "reserved", "releasing", "released", "unknown"],
	ready: ["intent", "reserved", "releasing", "unknown"],
	releasing: ["released", "release_failed", "reserved", "ready", "unknown"],
	released: ["intent", "reserved", "ready", "releasing", "none"],
	release_failed: ["releasing", "released", "intent", "unknown"],
	unknown: ["intent", "created", "ready", "reserved", "releasing", "released", "release_failed"],
};

/** Whether a row may go from one state to another; `undefined` stands for no row. */
export function canMove(from: SandboxState | undefined, to: SandboxState | undefined): boolean {
	return from === to || MOVES[from ?? "none"].includes(to ?? "none");
}

/** The key of a sandbox's row. Different pairs have different keys, whatever characters they hold. */
export function rowKey(prefix: string, name: string): string {
	return JSON.stringify([prefix, name]);
}

const REQUIRED = {
	prefix: isText,
	name: isText,
	operationKey: isText,
	workspaceId: isText,
	epoch: isCount,
	at: isNumber,
};
const OPTIONAL = {
	engineId: isText,
	containerId: isText,
	replaces: isText,
	libc: isText,
	error: isText,
	stopGraceMs: isNumber,
	createdAtMs: isNumber,
	shape: isRecord,
};

/** The row that a JSON value stands for, or `undefined` when a field is missing or of the wrong kind. Unknown fields are left out. */
export function parseRow(value: unknown): SandboxRow | undefined {
	if (!isRecord(value) || value["kind"] !== "sandbox") return undefined;
	const { state, env, labels } = value;
	if (typeof state !== "string" || state === "none" || !Object.hasOwn(MOVES, state)) return undefined;
	if (!isTexts(env) || !isTexts(labels)) return undefined;
	const row: Record<string, unknown> = { kind: "sandbox", state, env, labels };
	for (const [field, test] of Object.entries(REQUIRED)) {
		if (!test(value[field])) return undefined;
		row[field] = value[field];
	}
	for (const [field, test] of Object.entries(OPTIONAL)) {
		if (value[field] === undefined) continue;
		if (!test(value[field])) return undefined;
		row[field] = value[field];
	}
	if (value["owner"] !== undefined) {
		const owner = parseOwner(value["owner"]);
		if (!owner) return undefined;
		row["owner"] = owner;
	}
	return row as unknown as SandboxRow;
}

function isText(value: unknown): value is string {
	return typeof value === "string";
}

function isNumber(value: unknown): value is number {
	return typeof value === "number" && Number.isFinite(value);
}

function isCount(value: unknown): value is number {
	return isNumber(value) && Number.isSafeInteger(value) && value >= 0;
}

function isRecord(value: unknown): value is Record<string, unknown> {
	return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isTexts(value: unknown): value is Record<string, string> {
	return isRecord(value) && Object.values(value).every(isText);
}

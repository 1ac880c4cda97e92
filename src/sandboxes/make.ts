/** Makes a sandbox where no container is, and takes back what was made when that fails. */
import type { Stored } from "../ledger/ledger.js";
import type { SandboxRow } from "../ledger/row.js";
import { messageOf } from "../primitives/errors.js";
import { buildContainer, type Plan } from "./build.js";
import { toOwnerIds } from "./container-spec.js";
import { type Context, toLive } from "./context.js";
import { fleetLabels, LABEL } from "./labels.js";
import type { Guard } from "./look.js";
import { toContainerName } from "./names.js";
import { type Intent, Operation } from "./operation.js";
import { discardWorkspace } from "./remove.js";
import type { ResolvedRequest } from "./request.js";
import { adjust } from "./settle.js";
import { startAndCheck } from "./start.js";

/** Gives the container's id, and whether the workspace is new and so was empty. */
export async function makeSandbox(
	context: Context,
	wanted: ResolvedRequest,
	stored: Stored<SandboxRow> | undefined,
	guard: Guard,
): Promise<{ id: string; fresh: boolean }> {
	const { name } = wanted.request;
	const row = toLive(stored);
	const known = row?.workspaceId ?? (await findLinkedWorkspace(context, name, stored));
	const workspaceId = known ?? context.workspaces.newId();
	const owner = toOwnerIds(wanted.shape.user);
	const operation = await Operation.begin(context, name, "intent", toIntent(wanted, row, workspaceId), stored);
	try {
		const fresh = (await context.workspaces.ensure(workspaceId, known === undefined ? owner : undefined)).created;
		const id = await buildContainer(context, operation, toPlan(context, wanted, operation, toContainerName), guard);
		guard.signal.throwIfAborted();
		// What root put there before the first container; nothing of the sandbox has run yet.
		if (row?.state === "reserved" || row?.state === "intent") await context.workspaces.adopt(workspaceId, owner);
		await context.workspaces.give(workspaceId, owner);
		guard.signal.throwIfAborted();
		await startAndCheck(context, name, id);
		await operation.advance("ready");
		return { id, fresh };
	} catch (error) {
		await undo(context, operation, { discard: known === undefined, before: operation.before });
		throw error;
	}
}

/**
 * Takes back what an operation made: its container unless somebody has adopted it, its workspace if it was new. Touches
 * nothing else when another operation has overtaken this one; `false` then.
 */
export async function undo(
	context: Context,
	operation: Operation,
	{ discard, before }: { readonly discard: boolean; readonly before: SandboxRow | undefined },
): Promise<boolean> {
	const { name, workspaceId, containerId } = operation.row;
	try {
		const made = containerId === undefined ? await findByOperation(context, operation.key) : [containerId];
		for (const id of made) if (await operation.mayDelete(id)) await context.engine.removeContainer(id);
		if (!(await operation.holds())) return false;
		if (discard) {
			// From here on nobody takes this workspace up again.
			await operation.advance("releasing");
			await discardWorkspace(context, name, workspaceId, undefined);
		}
		await (before ? operation.restore(before) : operation.advance("released"));
		return true;
	} catch (error) {
		// The first failure is the one to tell; the row stays and says what was meant.
		context.emit({ type: "warning", code: "cleanup", name, message: `undoing what failed: ${messageOf(error)}` });
		return false;
	}
}

async function findByOperation(context: Context, operationKey: string): Promise<string[]> {
	const found = await context.engine.listContainers({
		...fleetLabels(context.fleet, "sandbox"),
		[LABEL.operation]: operationKey,
	});
	return found.map((container) => container.id);
}

/** The workspace that the link under the name leads to, unless the ledger says that it is gone or going. */
export async function findLinkedWorkspace(
	context: Context,
	name: string,
	stored: Stored<SandboxRow> | undefined,
): Promise<string | undefined> {
	const id = await context.workspaces.linked(context.fleet.prefix, name);
	if (id === undefined || (stored?.row.state === "released" && stored.row.workspaceId === id)) return undefined;
	return (await context.workspaces.exists(id)) ? id : undefined;
}

export function toIntent(wanted: ResolvedRequest, row: SandboxRow | undefined, workspaceId: string): Intent {
	return { workspaceId, shape: { ...wanted.shape } as never, ...adjust(wanted.request, row) };
}

export function toPlan(
	context: Context,
	wanted: ResolvedRequest,
	operation: Operation,
	nameOf: (prefix: string, name: string, operationKey: string) => string,
): Plan {
	const { name } = wanted.request;
	const { row } = operation;
	return {
		name,
		containerName: nameOf(context.fleet.prefix, name, operation.key),
		shape: wanted.shape,
		image: wanted.image,
		adjustable: {
			stopGraceMs: row.stopGraceMs ?? wanted.request.fallback.stopGraceMs,
			env: row.env,
			labels: row.labels,
		},
	};
}

/** Makes a sandbox where no container is, and takes back what was made when that fails. */
import type { SandboxRow } from "../ledger/row.js";
import { messageOf } from "../primitives/errors.js";
import { buildContainer, type Plan } from "./build.js";
import { toOwnerIds } from "./container-spec.js";
import { type Context, findRow } from "./context.js";
import { fleetLabels, LABEL } from "./labels.js";
import { toContainerName } from "./names.js";
import { type Intent, Operation } from "./operation.js";
import { discardWorkspace } from "./remove.js";
import type { ResolvedRequest } from "./request.js";
import { adjust } from "./settle.js";
import { startAndCheck } from "./start.js";

export async function makeSandbox(context: Context, wanted: ResolvedRequest, signal: AbortSignal): Promise<string> {
	const { request } = wanted;
	const { name } = request;
	const row = await findRow(context, name);
	const workspaceId =
		row?.workspaceId ?? (await findLinkedWorkspace(context, request.name)) ?? context.workspaces.newId();
	const operation = await Operation.begin(context, request.name, "intent", toIntent(wanted, row, workspaceId));
	let id: string | undefined;
	try {
		id = await buildContainer(context, operation, toPlan(context, wanted, operation, toContainerName), signal);
		signal.throwIfAborted();
		if (row?.state === "reserved") await context.workspaces.adopt(workspaceId, toOwnerIds(wanted.shape.user));
		await startAndCheck(context, name, id);
		await operation.advance("ready");
		return id;
	} catch (error) {
		await undo(context, operation, id ?? operation.row.containerId, undefined);
		throw error;
	}
}

/** Takes back what an operation made: its container unless somebody has adopted it, its workspace if it was new. */
export async function undo(
	context: Context,
	operation: Operation,
	containerId: string | undefined,
	before: SandboxRow | undefined,
): Promise<void> {
	const { name, workspaceId } = operation.row;
	try {
		const made = containerId === undefined ? await findByOperation(context, operation.key) : [containerId];
		for (const id of made) if (await operation.mayDelete(id)) await context.engine.removeContainer(id);
		const kept = before ?? operation.before;
		if (!kept) await discardWorkspace(context, name, workspaceId, undefined);
		await operation.restore(kept);
	} catch (error) {
		// The first failure is the one to tell; the row stays and says what was meant.
		context.emit({ type: "warning", code: "cleanup", name, message: `undoing a failed create: ${messageOf(error)}` });
	}
}

async function findByOperation(context: Context, operationKey: string): Promise<string[]> {
	const found = await context.engine.listContainers({
		...fleetLabels(context.fleet, "sandbox"),
		[LABEL.operation]: operationKey,
	});
	return found.map((container) => container.id);
}

export async function findLinkedWorkspace(context: Context, name: string): Promise<string | undefined> {
	const links = await context.workspaces.links();
	const link = links.find((candidate) => candidate.prefix === context.fleet.prefix && candidate.name === name);
	return link && (await context.workspaces.exists(link.id)) ? link.id : undefined;
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

/** Takes a sandbox away: its containers by id, its directories, then its row. */
import { isSandboxError, messageOf } from "../primitives/errors.js";
import { type Context, findRow } from "./context.js";
import type { ObservedContainer } from "./decide.js";
import { purgeAsRoot } from "./helper.js";
import { removeUnusedNetwork } from "./network.js";
import { observeAll } from "./observe.js";
import { Operation } from "./operation.js";
import { parseShape } from "./shape-json.js";

/** Deletes each by id; one that is gone already is no error. */
export async function removeContainers(context: Context, containers: readonly ObservedContainer[]): Promise<void> {
	for (const container of containers) await context.engine.removeContainer(container.id);
}

/** Removes what is ours under a name, with its workspace; whether there was anything. The name's lock is held. */
export async function removeLocked(context: Context, name: string): Promise<boolean> {
	const observed = await observeAll(context.engine, context.fleet, name);
	const removed = await removeAllOf(context, name, observed.ours);
	if (removed) await removeUnusedNetwork(context);
	return removed;
}

/** Removes the given containers of a name and all its directories, and ends its row; whether there was anything. */
export async function removeAllOf(
	context: Context,
	name: string,
	ours: readonly ObservedContainer[],
): Promise<boolean> {
	const row = await findRow(context, name);
	const ids = await workspaceIdsOf(context, name, ours, row?.workspaceId);
	const [first, ...others] = ids;
	if (!row && ours.length === 0 && first === undefined) return false;
	const operation = await Operation.begin(context, name, "releasing", {
		workspaceId: first ?? context.workspaces.newId(),
		env: row?.env ?? {},
		labels: row?.labels ?? {},
		...(row?.containerId === undefined ? {} : { containerId: row.containerId }),
		...(row?.shape === undefined ? {} : { shape: row.shape }),
		...(row?.stopGraceMs === undefined ? {} : { stopGraceMs: row.stopGraceMs }),
	});
	const image = imageIdOf(ours) ?? parseShape(row?.shape)?.imageId;
	try {
		await removeContainers(context, ours);
		if (first !== undefined) await discardWorkspace(context, name, first, image);
		for (const id of others)
			await context.workspaces.discard(id, { purge: (path) => purgeAsRoot(context, path, image) });
	} catch (error) {
		await operation.advance("release_failed", { error: messageOf(error) }).catch(() => {});
		throw error;
	}
	await operation.advance("released");
	context.emit({ type: "removed", name });
	return true;
}

function imageIdOf(ours: readonly ObservedContainer[]): string | undefined {
	for (const { recorded } of ours) if (recorded.ok) return recorded.recorded.shape.imageId;
	return undefined;
}

/** Deletes the directories of a sandbox and the link to them. */
export async function discardWorkspace(
	context: Context,
	name: string,
	id: string,
	imageId: string | undefined,
): Promise<void> {
	await context.workspaces.unlink(context.fleet.prefix, name);
	await context.workspaces.discard(id, { purge: (path) => purgeAsRoot(context, path, imageId) });
}

/** Every workspace that labels, row or link name for this sandbox, the row's first. */
async function workspaceIdsOf(
	context: Context,
	name: string,
	ours: readonly ObservedContainer[],
	rowWorkspaceId: string | undefined,
): Promise<string[]> {
	const ids = new Set<string>();
	if (rowWorkspaceId !== undefined) ids.add(rowWorkspaceId);
	for (const container of ours) if (container.recorded.ok) ids.add(container.recorded.recorded.workspaceId);
	for (const link of await context.workspaces.links()) {
		if (link.prefix === context.fleet.prefix && link.name === name) ids.add(link.id);
	}
	return [...ids];
}

/** Whether an error says that what was to be used is no longer there, so that looking again is worth it. */
export function isWorthAnotherLook(error: unknown): boolean {
	if (isSandboxError(error, "stale_epoch")) return true;
	if (!isSandboxError(error, "engine_failed")) return false;
	return ["name_taken", "no_such_container", "no_such_network", "removal_in_progress"].includes(error.details.failure);
}

/** Takes a sandbox away: its row says so first, then its containers go by id, then its directories. */
import { sleep } from "../primitives/abort.js";
import { isSandboxError, messageOf, systemCode } from "../primitives/errors.js";
import { type Context, toLive } from "./context.js";
import type { ObservedContainer } from "./decide.js";
import { purgeAsRoot } from "./helper.js";
import { type Guard, type Look, look } from "./look.js";
import { removeUnusedNetwork } from "./network.js";
import { Operation } from "./operation.js";
import { parseShape } from "./shape-json.js";

/** How often the world may change under a removal before it gives up. */
const MAX_LOOKS = 5;

/** Deletes each by id; one that is gone already is no error. */
export async function removeContainers(context: Context, containers: readonly ObservedContainer[]): Promise<void> {
	for (const container of containers) await context.engine.removeContainer(container.id);
}

/** Removes what is ours under a name, with its workspace; whether there was anything. The name's lock is held. */
export async function removeLocked(context: Context, name: string, guard: Guard): Promise<boolean> {
	let removed = false;
	for (let looks = 1; ; looks++) {
		guard.signal.throwIfAborted();
		guard.lock.verify();
		try {
			removed = (await removeAllOf(context, name, await look(context, name, guard.signal), guard)) || removed;
			break;
		} catch (error) {
			if (!isWorthAnotherLook(error) || looks >= MAX_LOOKS) throw error;
			await sleep(20 * looks, guard.signal);
		}
	}
	if (removed) await removeUnusedNetwork(context);
	return removed;
}

/** Removes the containers that were seen under a name and all its directories, and ends its row; whether there was anything. */
export async function removeAllOf(context: Context, name: string, seen: Look, guard: Guard): Promise<boolean> {
	const { stored } = seen;
	const { ours } = seen.observed;
	const row = toLive(stored);
	const ids = await workspaceIdsOf(context, name, ours, row?.workspaceId);
	const [first, ...others] = ids;
	if (!row && ours.length === 0 && first === undefined) return false;
	const begin = (): Promise<Operation> =>
		Operation.begin(
			context,
			name,
			"releasing",
			{
				workspaceId: first ?? context.workspaces.newId(),
				env: row?.env ?? {},
				labels: row?.labels ?? {},
				...(row?.containerId === undefined ? {} : { containerId: row.containerId }),
				...(row?.shape === undefined ? {} : { shape: row.shape }),
				...(row?.stopGraceMs === undefined ? {} : { stopGraceMs: row.stopGraceMs }),
			},
			stored,
		);
	let operation: Operation | undefined;
	guard.lock.verify();
	try {
		operation = await begin();
	} catch (error) {
		// On a full disk nothing can be written until this removal has made room.
		if (!isNoSpace(error)) throw error;
	}
	const imageId = imageIdOf(ours) ?? parseShape(row?.shape)?.imageId;
	try {
		for (const container of ours) {
			guard.signal.throwIfAborted();
			await context.engine.removeContainer(container.id);
		}
		for (const id of first === undefined ? [] : [first, ...others]) {
			guard.signal.throwIfAborted();
			await discardWorkspace(context, name, id, imageId, guard);
		}
	} catch (error) {
		await operation?.advance("release_failed", { error: messageOf(error) }).catch(() => {});
		throw error;
	}
	operation ??= await begin();
	await operation.advance("released");
	context.emit({ type: "removed", name });
	return true;
}

/** Deletes the directories of a sandbox and the link to them. */
export async function discardWorkspace(
	context: Context,
	name: string,
	id: string,
	imageId: string | undefined,
	guard?: Guard,
): Promise<void> {
	await context.workspaces.unlink(context.fleet.prefix, name, id);
	await context.workspaces.discard(id, {
		purge: (path, signal) => purgeAsRoot(context, path, imageId, signal),
		...(guard ? { signal: guard.signal } : {}),
	});
}

function imageIdOf(ours: readonly ObservedContainer[]): string | undefined {
	for (const { recorded } of ours) if (recorded.ok) return recorded.recorded.shape.imageId;
	return undefined;
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
	const linked = await context.workspaces.linked(context.fleet.prefix, name);
	if (linked !== undefined) ids.add(linked);
	return [...ids];
}

/** Whether an error says that what was to be used is no longer there, so that looking again is worth it. */
export function isWorthAnotherLook(error: unknown): boolean {
	if (isSandboxError(error, "stale_epoch")) return true;
	if (!isSandboxError(error, "engine_failed")) return false;
	return ["name_taken", "no_such_container", "no_such_network", "removal_in_progress"].includes(error.details.failure);
}

function isNoSpace(error: unknown): boolean {
	for (let cause = error; cause instanceof Error; cause = cause.cause) {
		if (["ENOSPC", "EDQUOT"].includes(systemCode(cause) ?? "")) return true;
	}
	return false;
}

/** A workspace for a name that has no sandbox yet. */
import { toOwnerIds } from "./container-spec.js";
import { type Context, findRow, keyOf, toLive } from "./context.js";
import { type Guard, look } from "./look.js";
import { findLinkedWorkspace } from "./make.js";
import { isEnding, Operation } from "./operation.js";
import { removeAllOf } from "./remove.js";

/** The workspace's path: the one the name has, or an empty one that its first `create()` will use. */
export async function findOrReserve(
	context: Context,
	name: string,
	user: string,
	signal: AbortSignal | undefined,
): Promise<string> {
	const key = keyOf(context, name);
	const row = await findRow(context, name);
	if (row && !isEnding(row)) return context.workspaces.workspacePath(row.workspaceId);
	return context.locks.hold(
		key,
		(both, lock) => reserve(context, name, user, { signal: both, lock }),
		signal ? { signal } : {},
	);
}

async function reserve(context: Context, name: string, user: string, guard: Guard): Promise<string> {
	let seen = await look(context, name, guard.signal);
	if (isEnding(seen.stored?.row)) {
		await removeAllOf(context, name, seen, guard);
		seen = await look(context, name, guard.signal);
	}
	const row = toLive(seen.stored);
	if (row) return context.workspaces.workspacePath(row.workspaceId);
	for (const { recorded } of seen.observed.ours) {
		if (recorded.ok) return context.workspaces.workspacePath(recorded.recorded.workspaceId);
	}
	const workspaceId = (await findLinkedWorkspace(context, name, seen.stored)) ?? context.workspaces.newId();
	guard.signal.throwIfAborted();
	const intent = { workspaceId, env: {}, labels: {} };
	const operation = await Operation.begin(context, name, "intent", intent, seen.stored);
	await context.workspaces.ensure(workspaceId, toOwnerIds(user));
	await context.workspaces.link(context.fleet.prefix, name, workspaceId);
	await operation.advance("reserved");
	return context.workspaces.workspacePath(workspaceId);
}

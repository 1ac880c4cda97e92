/** Puts a new container in the place of one that does not serve, over the same workspace. */
import type { Stored } from "../ledger/ledger.js";
import type { SandboxRow } from "../ledger/row.js";
import { isSandboxError } from "../primitives/errors.js";
import { buildContainer, toAccountsVersion } from "./build.js";
import { toOwnerIds } from "./container-spec.js";
import { type Context, toLive } from "./context.js";
import type { ObservedContainer } from "./decide.js";
import { warnOfLibcChange } from "./libc.js";
import type { Guard } from "./look.js";
import { findLinkedWorkspace, toIntent, toPlan, undo } from "./make.js";
import { toContainerName, toNextContainerName } from "./names.js";
import { type Intent, Operation } from "./operation.js";
import { removeContainers } from "./remove.js";
import type { ResolvedRequest } from "./request.js";
import { rename, toRow } from "./settle.js";
import { startAndCheck } from "./start.js";

/** The new container is made under another name and started before the old one goes; a failure leaves the old one as it was. */
export async function rebuild(
	context: Context,
	wanted: ResolvedRequest,
	old: ObservedContainer,
	superseded: readonly ObservedContainer[],
	stored: Stored<SandboxRow> | undefined,
	guard: Guard,
): Promise<string> {
	const { request, shape } = wanted;
	const { name } = request;
	const row = toLive(stored);
	const recorded = old.recorded.ok ? old.recorded.recorded : undefined;
	const workspaceId =
		recorded?.workspaceId ??
		row?.workspaceId ??
		(await findLinkedWorkspace(context, name, stored)) ??
		context.workspaces.newId();
	const intent: Intent = { ...toIntent(wanted, row, workspaceId), replaces: old.id };
	const operation = await Operation.begin(context, name, "intent", intent, stored);
	let oldRan = false;
	let id: string;
	try {
		await context.workspaces.ensure(workspaceId, undefined);
		id = await buildContainer(context, operation, toPlan(context, wanted, operation, toNextContainerName), guard);
		await warnOfLibcChange(context, name, workspaceId, recorded?.libc, operation.row.libc);
		guard.signal.throwIfAborted();
		guard.lock.verify();
		oldRan = await halt(context, old, row?.stopGraceMs ?? recorded?.stopGraceMs ?? request.fallback.stopGraceMs);
		guard.signal.throwIfAborted();
		await context.workspaces.give(workspaceId, toOwnerIds(shape.user));
		await startAndCheck(context, name, id);
	} catch (error) {
		const before = operation.before ?? toRow(context, name, old, workspaceId);
		const undone = await undo(context, operation, { discard: false, before });
		if (undone && recorded) await context.workspaces.give(workspaceId, toOwnerIds(recorded.shape.user));
		if (undone && oldRan) await context.engine.startContainer(old.id).catch(() => {});
		throw error;
	}
	// The new one runs: from here on there is only forward.
	guard.lock.verify();
	await removeContainers(context, [old, ...superseded]);
	guard.lock.verify();
	await rename(context, id, toContainerName(context.fleet.prefix, name));
	await operation.advance("ready");
	await context.workspaces.pruneAccounts(workspaceId, toAccountsVersion(operation.key));
	return id;
}

/** Stops the container that is replaced; whether it ran before. */
async function halt(context: Context, old: ObservedContainer, graceMs: number): Promise<boolean> {
	if (old.state === "paused") await context.engine.unpauseContainer(old.id);
	if (old.state !== "running" && old.state !== "paused" && old.state !== "restarting") return false;
	try {
		return await context.engine.stopContainer(old.id, graceMs);
	} catch (error) {
		if (isSandboxError(error, "engine_failed") && error.details.failure === "no_such_container") return false;
		throw error;
	}
}

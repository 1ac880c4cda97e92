/** Puts a new container in the place of one that does not serve, over the same workspace. */
import { isSandboxError } from "../primitives/errors.js";
import { buildContainer } from "./build.js";
import { toOwnerIds } from "./container-spec.js";
import { type Context, findRow } from "./context.js";
import type { ObservedContainer } from "./decide.js";
import { warnOfLibcChange } from "./libc.js";
import { findLinkedWorkspace, toIntent, toPlan, undo } from "./make.js";
import { toContainerName, toNextContainerName } from "./names.js";
import { type Intent, Operation } from "./operation.js";
import { removeContainers } from "./remove.js";
import type { ResolvedRequest } from "./request.js";
import { toRow } from "./settle.js";
import { startAndCheck } from "./start.js";

/** The new container is made under another name and started before the old one goes; a failure leaves the old one as it was. */
export async function rebuild(
	context: Context,
	wanted: ResolvedRequest,
	old: ObservedContainer,
	superseded: readonly ObservedContainer[],
	signal: AbortSignal,
): Promise<string> {
	const { request } = wanted;
	const { name } = request;
	const row = await findRow(context, name);
	const recorded = old.recorded.ok ? old.recorded.recorded : undefined;
	const workspaceId =
		recorded?.workspaceId ??
		row?.workspaceId ??
		(await findLinkedWorkspace(context, name)) ??
		context.workspaces.newId();
	const intent: Intent = { ...toIntent(wanted, row, workspaceId), replaces: old.id };
	const operation = await Operation.begin(context, name, "intent", intent);
	const before = operation.before;
	let id: string | undefined;
	let oldStopped = false;
	try {
		id = await buildContainer(context, operation, toPlan(context, wanted, operation, toNextContainerName), signal);
		await warnOfLibcChange(context, name, workspaceId, recorded?.libc, operation.row.libc);
		signal.throwIfAborted();
		oldStopped = await halt(context, old, row?.stopGraceMs ?? recorded?.stopGraceMs ?? request.fallback.stopGraceMs);
		if (recorded && recorded.shape.user !== wanted.shape.user) {
			await context.workspaces.adopt(workspaceId, toOwnerIds(wanted.shape.user));
		}
		await startAndCheck(context, name, id);
	} catch (error) {
		await undo(context, operation, id ?? operation.row.containerId, before ?? toRow(context, name, old, workspaceId));
		if (oldStopped) await context.engine.startContainer(old.id).catch(() => {});
		throw error;
	}
	await removeContainers(context, [old, ...superseded]);
	await context.engine.renameContainer(id, toContainerName(context.fleet.prefix, name));
	await operation.advance("ready");
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

/** Makes everything that speaks of a sandbox agree with the container that serves: its name, its row, the link to its workspace. */
import { randomUUID } from "node:crypto";
import type { SandboxRow } from "../ledger/row.js";
import { type Context, findRow, keyOf } from "./context.js";
import type { ObservedContainer } from "./decide.js";
import { toContainerName } from "./names.js";
import { removeContainers } from "./remove.js";
import type { Request, ResolvedRequest } from "./request.js";
import type { Adjustable } from "./shape.js";

/** Whether a serving sandbox needs nothing written: what was stated is what is recorded. */
export function isSettled(
	row: SandboxRow | undefined,
	container: ObservedContainer,
	stated: Partial<Adjustable>,
): boolean {
	return (
		row?.containerId === container.id &&
		row.state === "ready" &&
		(stated.stopGraceMs === undefined || stated.stopGraceMs === row.stopGraceMs) &&
		(stated.env === undefined || sameStrings(stated.env, row.env)) &&
		(stated.labels === undefined || sameStrings(stated.labels, row.labels))
	);
}

function sameStrings(a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean {
	const keys = Object.keys(a);
	return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && a[key] === b[key]);
}

/** The newest stated values, then what was recorded, then the fallback. */
export function adjust(request: Request, row: SandboxRow | undefined): Adjustable {
	return {
		stopGraceMs: request.stated.stopGraceMs ?? row?.stopGraceMs ?? request.fallback.stopGraceMs,
		env: request.stated.env ?? row?.env ?? request.fallback.env,
		labels: request.stated.labels ?? row?.labels ?? request.fallback.labels,
	};
}

/** Makes name, other containers and row agree with the container that serves. Writes only what differs. */
export async function settle(
	context: Context,
	wanted: ResolvedRequest,
	container: ObservedContainer,
	superseded: readonly ObservedContainer[],
): Promise<void> {
	const { name } = wanted.request;
	await removeContainers(context, superseded);
	const containerName = toContainerName(context.fleet.prefix, name);
	if (container.containerName !== containerName) await context.engine.renameContainer(container.id, containerName);
	if (!container.recorded.ok) return;
	const { recorded } = container.recorded;
	await context.workspaces.link(context.fleet.prefix, name, recorded.workspaceId);
	const row = await findRow(context, name);
	if (isSettled(row, container, wanted.request.stated)) return;
	const adjusted = adjust(wanted.request, row ?? toRow(context, name, container, recorded.workspaceId));
	const engineId = await context.engineId();
	await context.ledger.update(keyOf(context, name), (current) => ({
		...toRow(context, name, container, recorded.workspaceId),
		...(current && current.state !== "released" ? { env: current.env } : {}),
		...adjusted,
		epoch: Math.max(current?.epoch ?? 0, recorded.epoch),
		engineId,
	}));
}

/** The row that a container's labels speak for. */
export function toRow(context: Context, name: string, container: ObservedContainer, workspaceId: string): SandboxRow {
	const recorded = container.recorded.ok ? container.recorded.recorded : undefined;
	return {
		kind: "sandbox",
		prefix: context.fleet.prefix,
		name,
		state: "ready",
		operationKey: recorded?.operationKey ?? randomUUID(),
		epoch: recorded?.epoch ?? 0,
		containerId: container.id,
		workspaceId,
		env: {},
		labels: recorded?.labels ?? {},
		at: context.clock.nowMs(),
		...(recorded
			? {
					shape: { ...recorded.shape } as never,
					stopGraceMs: recorded.stopGraceMs,
					libc: recorded.libc,
					createdAtMs: recorded.createdAtMs,
				}
			: {}),
	};
}

/** Makes everything that speaks of a sandbox agree with the container that serves: its name, its row, the link to its workspace. */
import { randomUUID } from "node:crypto";
import type { Stored } from "../ledger/ledger.js";
import type { SandboxRow } from "../ledger/row.js";
import { isSandboxError } from "../primitives/errors.js";
import { type Context, keyOf, toLive } from "./context.js";
import type { ObservedContainer } from "./decide.js";
import type { Recorded } from "./labels.js";
import { toContainerName } from "./names.js";
import { overtaken } from "./operation.js";
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

/**
 * The row first, then the engine. Writes only what differs. A container that another operation made is adopted: the row gets a
 * new operation key, by which its maker, should it still live, sees that the container is no longer its own to delete.
 */
export async function settle(
	context: Context,
	wanted: ResolvedRequest,
	container: ObservedContainer,
	superseded: readonly ObservedContainer[],
	stored: Stored<SandboxRow> | undefined,
): Promise<void> {
	const { name } = wanted.request;
	if (!container.recorded.ok) return;
	const { recorded } = container.recorded;
	const row = toLive(stored);
	if (!isSettled(row, container, wanted.request.stated)) {
		const known = row?.containerId === container.id && row.state === "ready";
		const labelled = toRow(context, name, container, recorded.workspaceId);
		const next: SandboxRow = {
			...labelled,
			...adjust(wanted.request, row ?? labelled),
			operationKey: known ? row.operationKey : randomUUID(),
			epoch: Math.max(stored?.row.epoch ?? 0, recorded.epoch),
			engineId: await context.engineId(),
		};
		const revision = await context.ledger.commit(keyOf(context, name), stored?.revision ?? 0, next);
		if (revision === undefined) throw overtaken(name, next.epoch);
	}
	await removeContainers(context, superseded);
	await rename(context, container.id, toContainerName(context.fleet.prefix, name), container.containerName);
	await context.workspaces.link(context.fleet.prefix, name, recorded.workspaceId);
}

/** Gives a container its name; one that has it already is left alone, whoever gave it. */
export async function rename(context: Context, id: string, name: string, current?: string): Promise<void> {
	if (current === name) return;
	try {
		await context.engine.renameContainer(id, name);
	} catch (error) {
		const record = isSandboxError(error, "engine_failed") ? await context.engine.inspectContainer(id) : undefined;
		if (record?.name !== name) throw error;
	}
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
		...(recorded ? toRowFields(recorded) : {}),
	};
}

/** What labels and rows both hold of a container. */
export function toRowFields(recorded: Recorded): Pick<SandboxRow, "shape" | "stopGraceMs" | "libc" | "createdAtMs"> {
	return {
		shape: { ...recorded.shape } as never,
		stopGraceMs: recorded.stopGraceMs,
		libc: recorded.libc,
		createdAtMs: recorded.createdAtMs,
	};
}

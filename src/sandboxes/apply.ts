/**
 * Carries a decision out: the ledger's row first, then one engine call a step. Judges nothing.
 * Runs while the name's lock is held; `signal` aborts when the caller does or the lock is lost, and no engine call follows then.
 */
import { randomUUID } from "node:crypto";
import type { SandboxRow } from "../ledger/row.js";
import { isSandboxError, messageOf, SandboxError } from "../primitives/errors.js";
import { buildContainer, type Plan } from "./build.js";
import { type Context, findRow, keyOf } from "./context.js";
import type { Decision, ObservedContainer } from "./decide.js";
import type { Outcome } from "./events.js";
import { fleetLabels, LABEL } from "./labels.js";
import { warnOfLibcChange } from "./libc.js";
import { toContainerName, toNextContainerName } from "./names.js";
import { type Intent, Operation } from "./operation.js";
import type { Reason } from "./reasons.js";
import type { Request } from "./request.js";
import { discardWorkspace, removeAllOf, removeContainers } from "./remove.js";
import type { Adjustable, Shape } from "./shape.js";

/** A request whose image has its identity. */
export interface ResolvedRequest {
	readonly request: Request;
	readonly shape: Shape;
	/** The reference by which the image was asked for. */
	readonly image: string;
}

export interface Applied {
	readonly id: string;
	readonly outcome: Outcome;
	readonly reasons: readonly Reason[];
}

export async function apply(context: Context, wanted: ResolvedRequest, decision: Decision, signal: AbortSignal): Promise<Applied> {
	const { name } = wanted.request;
	const { container, superseded, reasons } = decision;
	if (superseded.length > 0) context.emit({ type: "superseded", name, ids: superseded.map((other) => other.id) });
	switch (decision.action) {
		case "refuse":
			throw conflict(context, name, decision);
		case "create":
			return { id: await create(context, wanted, signal), outcome: "created", reasons };
		case "replace": {
			const existed = await clear(context, wanted, decision);
			return { id: await create(context, wanted, signal), outcome: existed ? "replaced" : "created", reasons };
		}
		case "rebuild":
			return { id: await rebuild(context, wanted, needed(container), superseded, signal), outcome: "rebuilt", reasons };
		case "serve":
			await settle(context, wanted, needed(container), superseded);
			return { id: needed(container).id, outcome: "served", reasons };
		case "start": {
			const found = needed(container);
			try {
				await bringUp(context, found);
			} catch (error) {
				if (!isSandboxError(error, "engine_failed")) throw error;
				const why: Reason[] = [{ kind: "start", problem: messageOf(error) }];
				return { id: await rebuild(context, wanted, found, superseded, signal), outcome: "rebuilt", reasons: why };
			}
			await settle(context, wanted, found, superseded);
			return { id: found.id, outcome: "started", reasons };
		}
	}
}

/** The error for a name that something foreign holds. */
export function conflict(context: Context, name: string, decision: Decision): SandboxError<"conflict"> {
	const { foreign } = decision;
	const containerName = foreign?.containerName ?? toContainerName(context.fleet.prefix, name);
	return new SandboxError(
		"conflict",
		`sandbox ${name}: the container name ${containerName} is held by ${foreign?.owner ?? "something else"}; it was left as it is`,
		{
			details: { name, containerName, ...(foreign ? { containerId: foreign.id } : {}) },
			hint: "choose another name or prefix, or remove that container yourself",
		},
	);
}

/** Whether a serving sandbox needs nothing written: what was stated is what is recorded. */
export function isSettled(row: SandboxRow | undefined, container: ObservedContainer, stated: Partial<Adjustable>): boolean {
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
function adjust(request: Request, row: SandboxRow | undefined): Adjustable {
	return {
		stopGraceMs: request.stated.stopGraceMs ?? row?.stopGraceMs ?? request.fallback.stopGraceMs,
		env: request.stated.env ?? row?.env ?? request.fallback.env,
		labels: request.stated.labels ?? row?.labels ?? request.fallback.labels,
	};
}

async function create(context: Context, wanted: ResolvedRequest, signal: AbortSignal): Promise<string> {
	const { request } = wanted;
	const row = await findRow(context, request.name);
	const workspaceId = row?.workspaceId ?? (await findLinkedWorkspace(context, request.name)) ?? context.workspaces.newId();
	const operation = await Operation.begin(context, request.name, "intent", toIntent(wanted, row, workspaceId));
	let id: string | undefined;
	try {
		id = await buildContainer(context, operation, toPlan(context, wanted, operation, toContainerName), signal);
		signal.throwIfAborted();
		await context.engine.startContainer(id);
		await operation.advance("ready");
		return id;
	} catch (error) {
		await undo(context, operation, id ?? operation.row.containerId, undefined);
		throw error;
	}
}

/** The new container is made under another name and started before the old one goes; a failure leaves the old one as it was. */
async function rebuild(
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
		recorded?.workspaceId ?? row?.workspaceId ?? (await findLinkedWorkspace(context, name)) ?? context.workspaces.newId();
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
		await context.engine.startContainer(id);
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

async function bringUp(context: Context, container: ObservedContainer): Promise<void> {
	if (container.state === "paused") await context.engine.unpauseContainer(container.id);
	else await context.engine.startContainer(container.id);
}

/** Makes name, other containers and row agree with the container that serves. Writes only what differs. */
async function settle(
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

/** Takes back what an operation made: its container unless somebody has adopted it, its workspace if it was new. */
async function undo(
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

/** Removes container and workspace; whether there was anything. */
async function clear(context: Context, wanted: ResolvedRequest, decision: Decision): Promise<boolean> {
	const ours = decision.container ? [decision.container, ...decision.superseded] : [];
	return removeAllOf(context, wanted.request.name, ours);
}

async function findLinkedWorkspace(context: Context, name: string): Promise<string | undefined> {
	const links = await context.workspaces.links();
	const link = links.find((candidate) => candidate.prefix === context.fleet.prefix && candidate.name === name);
	return link && (await context.workspaces.exists(link.id)) ? link.id : undefined;
}

function toIntent(wanted: ResolvedRequest, row: SandboxRow | undefined, workspaceId: string): Intent {
	return { workspaceId, shape: { ...wanted.shape } as never, ...adjust(wanted.request, row) };
}

function toPlan(
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
		adjustable: { stopGraceMs: row.stopGraceMs ?? wanted.request.fallback.stopGraceMs, env: row.env, labels: row.labels },
	};
}

function needed(container: ObservedContainer | undefined): ObservedContainer {
	if (!container) throw new TypeError("a decision about a container names none");
	return container;
}

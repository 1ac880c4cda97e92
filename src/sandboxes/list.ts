/** What there is: one call to the engine, however many sandboxes; the ledger adds those whose container is missing. */
import type { ContainerState, ContainerSummary, PublishedPort } from "../engine/engine.js";
import type { SandboxRow } from "../ledger/row.js";
import type { Context } from "./context.js";
import { type Datable, newestFirst } from "./decide.js";
import { fleetLabels, LABEL, parseLabels } from "./labels.js";
import type { Shape } from "./shape.js";
import { parseShape } from "./shape-json.js";

/** One sandbox of a list. What is not recorded or cannot be read is `null`. */
export interface SandboxInfo {
	readonly name: string;
	/** The container's id; `null` when the state is `missing`. */
	readonly id: string | null;
	/** The engine's word for the container; `missing` when only the workspace is there: `create()` builds over it. */
	readonly state: ContainerState | "missing";
	/** The reference by which the image was asked for. */
	readonly image: string | null;
	readonly imageId: string | null;
	readonly createdAt: Date | null;
	/** 0: no limit. */
	readonly idleTimeoutMs: number | null;
	/** 0: no limit. */
	readonly maxLifetimeMs: number | null;
	readonly stopGraceMs: number | null;
	readonly memoryBytes: number | null;
	readonly cpus: number | null;
	readonly pids: number | null;
	readonly network: string | null;
	readonly user: string | null;
	/** The caller's own labels. */
	readonly labels: Readonly<Record<string, string>>;
	readonly ports: readonly PublishedPort[];
	readonly workspaceDir: string | null;
	/** What is wrong with it, where something is. */
	readonly problem?: string;
}

export async function listSandboxes(context: Context, signal?: AbortSignal): Promise<SandboxInfo[]> {
	const [containers, rows] = await Promise.all([
		context.engine.listContainers(fleetLabels(context.fleet, "sandbox"), { signal }),
		context.ledger.all(),
	]);
	const byName = new Map<string, Listed>();
	for (const container of containers) {
		const name = container.labels[LABEL.name];
		if (name === undefined) continue;
		const listed: Listed = { ...container, recorded: parseLabels(container.labels) };
		const other = byName.get(name);
		if (!other || newestFirst(listed, other) < 0) byName.set(name, listed);
	}
	const ownRows = new Map<string, SandboxRow>();
	for (const { row } of rows.values()) {
		if (row.prefix === context.fleet.prefix && row.state !== "released") ownRows.set(row.name, row);
	}
	const infos = [...byName].map(([name, container]) => toInfo(context, name, container, ownRows.get(name)));
	for (const [name, row] of ownRows) if (!byName.has(name)) infos.push(toMissing(context, row));
	return infos.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

type Listed = ContainerSummary & Datable;

function toInfo(context: Context, name: string, container: Listed, row: SandboxRow | undefined): SandboxInfo {
	const { state, recorded: parsed } = container;
	if (!parsed.ok) {
		return {
			...describe(undefined),
			name,
			id: container.id,
			state,
			image: container.imageReference,
			imageId: container.imageId,
			createdAt: new Date(container.createdAtMs),
			stopGraceMs: null,
			labels: row?.labels ?? {},
			ports: container.ports,
			workspaceDir: row ? context.workspaces.workspacePath(row.workspaceId) : null,
			problem: parsed.problem,
		};
	}
	const { recorded } = parsed;
	return {
		...describe(recorded.shape),
		name,
		id: container.id,
		state,
		image: recorded.image,
		imageId: container.imageId,
		createdAt: new Date(recorded.createdAtMs),
		stopGraceMs: row?.stopGraceMs ?? recorded.stopGraceMs,
		labels: row?.labels ?? recorded.labels,
		ports: container.ports,
		workspaceDir: context.workspaces.workspacePath(recorded.workspaceId),
	};
}

function toMissing(context: Context, row: SandboxRow): SandboxInfo {
	return {
		...describe(parseShape(row.shape)),
		name: row.name,
		id: null,
		state: "missing",
		image: null,
		createdAt: row.createdAtMs === undefined ? null : new Date(row.createdAtMs),
		stopGraceMs: row.stopGraceMs ?? null,
		labels: row.labels,
		ports: [],
		workspaceDir: context.workspaces.workspacePath(row.workspaceId),
		...(row.error === undefined ? {} : { problem: row.error }),
	};
}

function describe(shape: Shape | undefined) {
	return {
		imageId: shape?.imageId ?? null,
		idleTimeoutMs: shape?.idleTimeoutMs ?? null,
		maxLifetimeMs: shape?.maxLifetimeMs ?? null,
		memoryBytes: shape?.memoryBytes ?? null,
		cpus: shape?.cpus ?? null,
		pids: shape?.pids ?? null,
		network: shape?.network ?? null,
		user: shape?.user ?? null,
	};
}

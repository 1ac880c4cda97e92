/** A shape as it comes back from a label or the ledger: unknown until every field is looked at. */
import type { MountShape, PortShape, Shape } from "./shape.js";

/** The shape, or `undefined` when any field is missing or of the wrong kind. Fields it does not know make it unreadable too. */
export function parseShape(value: unknown): Shape | undefined {
	const record = asObject(value);
	if (!record) return undefined;
	const {
		memoryBytes,
		cpus,
		pids,
		shmBytes,
		maxLifetimeMs,
		idleTimeoutMs,
		imageId,
		network,
		readOnlyRoot,
		ociRuntime,
		user,
		...rest
	} = record;
	const { ports: rawPorts, mounts: rawMounts, ...unknownFields } = rest;
	const ports = parseList(rawPorts, parsePort);
	const mounts = parseList(rawMounts, parseMount);
	if (Object.keys(unknownFields).length > 0 || !ports || !mounts) return undefined;
	if (!isAmount(memoryBytes) || !isAmount(cpus) || !isAmount(pids) || !isAmount(shmBytes)) return undefined;
	if (!isAmount(maxLifetimeMs) || !isAmount(idleTimeoutMs)) return undefined;
	if (typeof imageId !== "string" || typeof user !== "string" || typeof readOnlyRoot !== "boolean") return undefined;
	if (network !== "none" && network !== "bridge") return undefined;
	if (ociRuntime !== null && typeof ociRuntime !== "string") return undefined;
	return {
		memoryBytes,
		cpus,
		pids,
		shmBytes,
		ports,
		maxLifetimeMs,
		idleTimeoutMs,
		imageId,
		network,
		mounts,
		readOnlyRoot,
		ociRuntime,
		user,
	};
}

function parsePort(value: unknown): PortShape | undefined {
	const record = asObject(value);
	if (!record) return undefined;
	const { port, protocol, hostPort, hostIp } = record;
	if (!isAmount(port) || (protocol !== "tcp" && protocol !== "udp") || typeof hostIp !== "string") return undefined;
	if (hostPort !== null && !isAmount(hostPort)) return undefined;
	return { port, protocol, hostPort, hostIp };
}

function parseMount(value: unknown): MountShape | undefined {
	const record = asObject(value);
	if (!record) return undefined;
	const { source, target, readOnly } = record;
	if (typeof source !== "string" || typeof target !== "string" || typeof readOnly !== "boolean") return undefined;
	return { source, target, readOnly };
}

function parseList<Item>(value: unknown, parse: (item: unknown) => Item | undefined): Item[] | undefined {
	if (!Array.isArray(value)) return undefined;
	const items = value.map(parse);
	return items.every((item): item is Item & {} => item !== undefined) ? items : undefined;
}

function asObject(value: unknown): Record<string, unknown> | undefined {
	if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
	return value as Record<string, unknown>;
}

function isAmount(value: unknown): value is number {
	return typeof value === "number" && Number.isFinite(value) && value >= 0;
}

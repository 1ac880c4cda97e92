/** Turns the engine's JSON about containers into our records. Pure. */
import type { ContainerRecord, ContainerState, ContainerSummary, PublishedPort } from "./engine.js";
import {
	environmentOf,
	type JsonObject,
	listOf,
	numberOf,
	objectOf,
	textMapOf,
	textOf,
	textsOf,
	timeOf,
} from "./json-fields.js";

/** One answer of an inspect call. */
export function toContainerRecord(data: JsonObject): ContainerRecord {
	const state = objectOf(data["State"]);
	const config = objectOf(data["Config"]);
	const status = toState(textOf(state["Status"]));
	return {
		id: textOf(data["Id"]),
		name: textOf(data["Name"]).replace(/^\//, ""),
		state: status,
		exitCode: numberOf(state["ExitCode"]),
		oomKilled: state["OOMKilled"] === true,
		pid: numberOf(state["Pid"]),
		imageReference: textOf(config["Image"]),
		imageId: toImageId(textOf(data["Image"])),
		createdAtMs: timeOf(data["Created"]),
		startedAtMs: timeOf(state["StartedAt"]),
		labels: textMapOf(config["Labels"]),
		ports: toPorts(data, status),
		env: environmentOf(config["Env"]),
		user: textOf(config["User"]),
		raw: data,
	};
}

/** One line of a list call. */
export function toContainerSummary(data: JsonObject): ContainerSummary {
	return {
		id: textOf(data["Id"]),
		name: ownName(textsOf(data["Names"])),
		state: toState(textOf(data["State"])),
		status: textOf(data["Status"]),
		imageReference: textOf(data["Image"]),
		imageId: toImageId(textOf(data["ImageID"])),
		createdAtMs: numberOf(data["Created"]) * 1000,
		labels: textMapOf(data["Labels"]),
		ports: listOf(data["Ports"]).map(objectOf).flatMap(toListedPort).sort(byPort),
	};
}

/** Among the names are those by which linked containers know it, as in `/other/alias`. */
function ownName(names: readonly string[]): string {
	return (names.find((name) => name.lastIndexOf("/") === 0) ?? names[0] ?? "").replace(/^\//, "");
}

const STATES: Readonly<Record<string, ContainerState>> = {
	created: "created",
	running: "running",
	paused: "paused",
	restarting: "restarting",
	removing: "removing",
	exited: "exited",
	dead: "dead",
	// Podman's words for the same.
	configured: "created",
	initialized: "created",
	stopping: "running",
	stopped: "exited",
};

/** A word that is not known counts as `dead`: nothing is expected of it. */
function toState(word: string): ContainerState {
	return Object.hasOwn(STATES, word) ? (STATES[word] ?? "dead") : "dead";
}

/** Podman leaves `sha256:` out. */
export function toImageId(id: string): string {
	return /^[0-9a-f]{64}$/.test(id) ? `sha256:${id}` : id;
}

/** What is published: as it really is while it runs, as it was asked for otherwise. */
function toPorts(data: JsonObject, state: ContainerState): PublishedPort[] {
	const running = state === "running" || state === "paused";
	const bindings = running
		? objectOf(objectOf(data["NetworkSettings"])["Ports"])
		: objectOf(objectOf(data["HostConfig"])["PortBindings"]);
	return Object.entries(bindings)
		.flatMap(([key, hosts]) => listOf(hosts).map((host) => toBoundPort(key, objectOf(host))))
		.sort(byPort);
}

function toBoundPort(key: string, host: JsonObject): PublishedPort {
	const [port = "", protocol = "tcp"] = key.split("/");
	const hostPort = Number(textOf(host["HostPort"]));
	return {
		port: Number(port),
		protocol: protocol === "udp" ? "udp" : "tcp",
		hostIp: textOf(host["HostIp"]),
		...(hostPort > 0 ? { hostPort } : {}),
	};
}

function toListedPort(entry: JsonObject): PublishedPort[] {
	const hostPort = numberOf(entry["PublicPort"]);
	if (hostPort === 0) return [];
	return [
		{
			port: numberOf(entry["PrivatePort"]),
			protocol: entry["Type"] === "udp" ? "udp" : "tcp",
			hostIp: textOf(entry["IP"]),
			hostPort,
		},
	];
}

function byPort(a: PublishedPort, b: PublishedPort): number {
	return a.port - b.port || a.protocol.localeCompare(b.protocol) || a.hostIp.localeCompare(b.hostIp);
}

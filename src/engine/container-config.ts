/** Turns a container's spec into the engine's JSON, and adds the hardening that every container of ours has. */
import type { ContainerSpec, MountSpec, PublishedPort } from "./engine.js";
import type { JsonObject } from "./json-fields.js";

/** The body of a create call. Pure; the same spec gives the same text. */
export function toContainerConfig(spec: ContainerSpec): JsonObject {
	return {
		Image: spec.image,
		Entrypoint: spec.entrypoint,
		Cmd: spec.command,
		Env: toEnvList(spec.env),
		Labels: spec.labels,
		User: spec.user,
		WorkingDir: spec.workingDir,
		...(spec.hostname === undefined ? {} : { Hostname: spec.hostname }),
		ExposedPorts: Object.fromEntries(spec.ports.map((port) => [portKey(port), {}])),
		// The image may name another signal, which our init and shell do not end on, or a check that runs on and on.
		StopSignal: "SIGTERM",
		StopTimeout: toGraceSeconds(spec.stopGraceMs),
		Healthcheck: { Test: ["NONE"] },
		HostConfig: toHostConfig(spec),
	};
}

function toHostConfig(spec: ContainerSpec): JsonObject {
	return {
		Memory: spec.memoryBytes,
		// Equal: no swap on top of it.
		MemorySwap: spec.memoryBytes,
		NanoCpus: Math.round(spec.cpus * 1e9),
		PidsLimit: spec.pids,
		ShmSize: spec.shmBytes,
		// Core dumps only: a limit of open files above the engine's own makes every start fail.
		Ulimits: [{ Name: "core", Soft: 0, Hard: 0 }],
		CapDrop: ["ALL"],
		CapAdd: spec.capAdd,
		SecurityOpt: ["no-new-privileges"],
		Privileged: false,
		ReadonlyRootfs: spec.readOnlyRoot,
		Init: true,
		IpcMode: "private",
		CgroupnsMode: "private",
		// Any other driver lets code inside fill this machine's disk through /proc/1/fd/1.
		LogConfig: { Type: "none", Config: {} },
		RestartPolicy: { Name: "no", MaximumRetryCount: 0 },
		AutoRemove: false,
		// Mounts and never Binds: those break on a colon, and make a missing source as an empty directory.
		Mounts: spec.mounts.map(toMount),
		Tmpfs: spec.tmpfs,
		NetworkMode: spec.network,
		PortBindings: toPortBindings(spec.ports),
		PublishAllPorts: false,
		...(spec.ociRuntime === undefined ? {} : { Runtime: spec.ociRuntime }),
	};
}

function toMount(mount: MountSpec): JsonObject {
	return {
		Type: "bind",
		Source: mount.source,
		Target: mount.target,
		ReadOnly: mount.readOnly,
		BindOptions: { Propagation: "rprivate", ...(mount.nonRecursive ? { NonRecursive: true } : {}) },
	};
}

function toPortBindings(ports: readonly PublishedPort[]): JsonObject {
	const bindings: Record<string, JsonObject[]> = {};
	for (const port of ports) {
		const list = bindings[portKey(port)] ?? [];
		list.push({ HostIp: port.hostIp, HostPort: port.hostPort === undefined ? "" : String(port.hostPort) });
		bindings[portKey(port)] = list;
	}
	return bindings;
}

function portKey(port: PublishedPort): string {
	return `${port.port}/${port.protocol}`;
}

/** `NAME=value` for each variable. */
export function toEnvList(env: Readonly<Record<string, string>>): string[] {
	return Object.entries(env).map(([name, value]) => `${name}=${value}`);
}

/** Whole seconds, rounded up: the engine counts no smaller. */
export function toGraceSeconds(graceMs: number): number {
	return Math.ceil(graceMs / 1000);
}

import { describe, expect, test } from "vitest";
import { toContainerConfig } from "../../../src/engine/container-config.js";
import type { ContainerSpec } from "../../../src/engine/engine.js";
import { objectOf } from "../../../src/engine/json-fields.js";

const SPEC: ContainerSpec = {
	name: "web",
	image: "sha256:abc",
	entrypoint: [],
	command: ["sleep", "1"],
	env: { A: "1=2", B: "" },
	labels: { l: "v" },
	user: "1000:1000",
	workingDir: "/workspace",
	memoryBytes: 512 * 1024 * 1024,
	cpus: 0.3,
	pids: 512,
	shmBytes: 64 * 1024 * 1024,
	stopGraceMs: 1001,
	mounts: [{ source: "/data/a:b", target: "/workspace", readOnly: false }],
	tmpfs: { "/tmp": "rw,size=64m" },
	network: "none",
	ports: [],
	readOnlyRoot: true,
	capAdd: [],
};

const host = (changes: Partial<ContainerSpec> = {}) =>
	objectOf(toContainerConfig({ ...SPEC, ...changes })["HostConfig"]);

describe("the configuration of a container", () => {
	test("says what was asked for", () => {
		expect(toContainerConfig(SPEC)).toMatchObject({
			Image: "sha256:abc",
			Entrypoint: [],
			Cmd: ["sleep", "1"],
			Env: ["A=1=2", "B="],
			Labels: { l: "v" },
			User: "1000:1000",
			WorkingDir: "/workspace",
		});
		expect(host()).toMatchObject({
			NanoCpus: 300_000_000,
			PidsLimit: 512,
			ShmSize: 64 * 1024 * 1024,
			ReadonlyRootfs: true,
			Tmpfs: { "/tmp": "rw,size=64m" },
			NetworkMode: "none",
		});
	});

	test("drops every capability and adds back only those that are named", () => {
		expect(host()).toMatchObject({ CapDrop: ["ALL"], CapAdd: [] });
		expect(host({ capAdd: ["CHOWN"] })).toMatchObject({ CapDrop: ["ALL"], CapAdd: ["CHOWN"] });
	});

	test("has the hardening that every container has", () => {
		expect(host()).toMatchObject({
			SecurityOpt: ["no-new-privileges"],
			Privileged: false,
			Init: true,
			IpcMode: "private",
			CgroupnsMode: "private",
			LogConfig: { Type: "none" },
			RestartPolicy: { Name: "no" },
			AutoRemove: false,
		});
		expect(host()["MemorySwap"]).toBe(host()["Memory"]);
	});

	test("limits core dumps and no number of open files", () => {
		expect(host()["Ulimits"]).toEqual([{ Name: "core", Soft: 0, Hard: 0 }]);
	});

	test("mounts with private propagation, never binds, and never lets the engine make a source", () => {
		expect(host()["Mounts"]).toEqual([
			{
				Type: "bind",
				Source: "/data/a:b",
				Target: "/workspace",
				ReadOnly: false,
				BindOptions: { Propagation: "rprivate" },
			},
		]);
		expect(host()).not.toHaveProperty("Binds");
	});

	test("runs no health check of the image and ends on TERM, after a grace in whole seconds", () => {
		expect(toContainerConfig(SPEC)).toMatchObject({
			Healthcheck: { Test: ["NONE"] },
			StopSignal: "SIGTERM",
			StopTimeout: 2,
		});
	});

	test("publishes ports with their host address, and leaves the choice of a host port to the engine", () => {
		const ports = [
			{ port: 80, protocol: "tcp", hostIp: "127.0.0.1" },
			{ port: 80, protocol: "tcp", hostIp: "127.0.0.2", hostPort: 8080 },
			{ port: 53, protocol: "udp", hostIp: "127.0.0.1", hostPort: 5300 },
		] as const;
		expect(toContainerConfig({ ...SPEC, ports })["ExposedPorts"]).toEqual({ "80/tcp": {}, "53/udp": {} });
		expect(host({ ports })["PortBindings"]).toEqual({
			"80/tcp": [
				{ HostIp: "127.0.0.1", HostPort: "" },
				{ HostIp: "127.0.0.2", HostPort: "8080" },
			],
			"53/udp": [{ HostIp: "127.0.0.1", HostPort: "5300" }],
		});
	});

	test("names an OCI runtime and a host name only where they are given", () => {
		expect(host()).not.toHaveProperty("Runtime");
		expect(host({ ociRuntime: "runsc" })).toMatchObject({ Runtime: "runsc" });
		expect(toContainerConfig(SPEC)).not.toHaveProperty("Hostname");
		expect(toContainerConfig({ ...SPEC, hostname: "web" })).toMatchObject({ Hostname: "web" });
	});
});

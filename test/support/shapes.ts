/** Shapes and observations for tests, made by hand or by fast-check. */
import fc from "fast-check";
import type { ContainerState } from "../../src/engine/engine.js";
import type { ObservedContainer } from "../../src/sandboxes/decide.js";
import type { Recorded } from "../../src/sandboxes/labels.js";
import type { MountShape, PortShape, Shape } from "../../src/sandboxes/shape.js";

export const IMAGE_A = `sha256:${"a".repeat(64)}`;
export const IMAGE_B = `sha256:${"b".repeat(64)}`;

export const baseShape: Shape = {
	memoryBytes: 512 * 1024 ** 2,
	cpus: 1,
	pids: 512,
	shmBytes: 64 * 1024 ** 2,
	ports: [],
	maxLifetimeMs: 3_600_000,
	idleTimeoutMs: 300_000,
	imageId: IMAGE_A,
	network: "bridge",
	mounts: [],
	readOnlyRoot: false,
	ociRuntime: null,
	user: "1000:1000",
};

export function recorded(shape: Shape = baseShape, change: Partial<Recorded> = {}): Recorded {
	return {
		operationKey: "op-1",
		epoch: 1,
		workspaceId: "0123456789abcdef01234567",
		createdAtMs: 1_000_000,
		image: "node",
		libc: "glibc",
		stopGraceMs: 10_000,
		labels: {},
		shape,
		...change,
	};
}

export function observed(
	change: Partial<ObservedContainer> & { readonly shape?: Shape; readonly at?: number } = {},
): ObservedContainer {
	const { shape = baseShape, at = 1_000_000, ...rest } = change;
	return {
		id: "c1",
		containerName: "sbx-w",
		state: "running",
		workspaceThere: true,
		createdAtMs: at,
		recorded: { ok: true, recorded: recorded(shape, { createdAtMs: at }) },
		...rest,
	};
}

export const portArbitrary: fc.Arbitrary<PortShape> = fc.record({
	port: fc.integer({ min: 1, max: 5 }),
	protocol: fc.constantFrom("tcp", "udp"),
	hostPort: fc.option(fc.integer({ min: 8000, max: 8002 }), { nil: null }),
	hostIp: fc.constant("127.0.0.1"),
});

const mountArbitrary: fc.Arbitrary<MountShape> = fc.record({
	source: fc.constantFrom("/a", "/b"),
	target: fc.constantFrom("/x", "/y"),
	readOnly: fc.boolean(),
});

export const shapeArbitrary: fc.Arbitrary<Shape> = fc.record({
	memoryBytes: fc.integer({ min: 1, max: 4 }).map((n) => n * 1024 ** 2 * 256),
	cpus: fc.constantFrom(0.5, 1, 2),
	pids: fc.constantFrom(64, 512, 1024),
	shmBytes: fc.constantFrom(65_536, 1024 ** 2),
	ports: fc.uniqueArray(portArbitrary, { maxLength: 3, selector: (port) => `${port.port}/${port.protocol}` }),
	maxLifetimeMs: fc.constantFrom(0, 1000, 60_000),
	idleTimeoutMs: fc.constantFrom(0, 1000, 60_000),
	imageId: fc.constantFrom(IMAGE_A, IMAGE_B),
	network: fc.constantFrom("none", "bridge"),
	mounts: fc.uniqueArray(mountArbitrary, { maxLength: 2, selector: (mount) => mount.target }),
	readOnlyRoot: fc.boolean(),
	ociRuntime: fc.constantFrom(null, "runsc"),
	user: fc.constantFrom("1000:1000", "root"),
});

export const stateArbitrary: fc.Arbitrary<ContainerState> = fc.constantFrom(
	"created",
	"running",
	"paused",
	"restarting",
	"removing",
	"exited",
	"dead",
);

export const containerArbitrary: fc.Arbitrary<ObservedContainer> = fc
	.record({
		id: fc.string({ minLength: 1, maxLength: 3 }),
		state: stateArbitrary,
		shape: shapeArbitrary,
		at: fc.integer({ min: 0, max: 100_000 }),
		readable: fc.boolean(),
	})
	.map(({ readable, ...rest }) => ({
		...observed(rest),
		...(readable ? {} : { recorded: { ok: false as const, problem: "no readable shape" } }),
	}));

/** What exists in the fake engine, as plain records that tests may make and look at. */
import { createHash } from "node:crypto";
import type {
	ContainerRecord,
	ContainerSpec,
	ContainerState,
	ImageRecord,
	PublishedPort,
} from "../../src/engine/engine.js";
import { type EngineFailure, SandboxError } from "../../src/primitives/errors.js";

export interface FakeImage {
	readonly id: string;
	readonly tags: string[];
	readonly record: Omit<ImageRecord, "id" | "tags">;
	/** Files that every container of it has. */
	readonly files: Readonly<Record<string, string>>;
}

/** An image to put in; all of it may be left out. */
export interface FakeImageInput extends Partial<Omit<ImageRecord, "tags">> {
	readonly tags?: readonly string[];
	readonly files?: Readonly<Record<string, string>>;
}

export interface FakeContainer {
	readonly id: string;
	name: string;
	state: ContainerState;
	exitCode: number;
	oomKilled: boolean;
	readonly image: FakeImage;
	readonly spec: ContainerSpec;
	readonly labels: Readonly<Record<string, string>>;
	readonly createdAtMs: number;
	startedAtMs: number;
	readonly files: Map<string, Buffer>;
}

/** A container to put in, ours or a stranger's; only the name is asked for. */
export interface FakeContainerInput extends Partial<ContainerSpec> {
	readonly name: string;
	readonly id?: string;
	readonly state?: ContainerState;
	readonly exitCode?: number;
	readonly oomKilled?: boolean;
	readonly createdAtMs?: number;
	readonly startedAtMs?: number;
}

export interface FakeNetwork {
	readonly id: string;
	readonly name: string;
	readonly labels: Readonly<Record<string, string>>;
	readonly interContainer: boolean;
	readonly internal: boolean;
}

/** 64 hexadecimal digits that differ with the seed. */
export function fakeId(seed: string): string {
	return createHash("sha256").update(seed).digest("hex");
}

export function toFakeImage(seed: string, input: FakeImageInput): FakeImage {
	const { id = `sha256:${fakeId(`image ${seed}`)}`, tags = [], files = {}, ...rest } = input;
	return {
		id,
		tags: tags.map(withTag),
		files,
		record: {
			digests: [],
			os: "linux",
			architecture: "amd64",
			sizeBytes: 1_000_000,
			createdAtMs: 1_700_000_000_000,
			labels: {},
			env: { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" },
			user: "",
			...rest,
		},
	};
}

export function withTag(reference: string): string {
	return reference.slice(reference.lastIndexOf("/") + 1).includes(":") ? reference : `${reference}:latest`;
}

export const DEFAULT_SPEC: Omit<ContainerSpec, "name" | "image"> = {
	entrypoint: [],
	command: ["sleep", "infinity"],
	env: {},
	labels: {},
	user: "1000:1000",
	workingDir: "/",
	memoryBytes: 64 * 1024 * 1024,
	cpus: 1,
	pids: 64,
	shmBytes: 16 * 1024 * 1024,
	stopGraceMs: 1000,
	mounts: [],
	tmpfs: {},
	network: "none",
	ports: [],
	readOnlyRoot: false,
	capAdd: [],
};

export function isUp(container: FakeContainer): boolean {
	return container.state === "running" || container.state === "paused";
}

export function toRecord(container: FakeContainer): ContainerRecord {
	const { spec, image } = container;
	return {
		id: container.id,
		name: container.name,
		state: container.state,
		exitCode: container.exitCode,
		oomKilled: container.oomKilled,
		pid: isUp(container) ? 4242 : 0,
		imageReference: spec.image,
		imageId: image.id,
		createdAtMs: container.createdAtMs,
		startedAtMs: container.startedAtMs,
		labels: container.labels,
		ports: toPorts(container),
		env: { ...image.record.env, ...spec.env },
		user: spec.user,
		raw: { spec },
	};
}

/** A free port is picked for what leaves it open, once it runs. */
export function toPorts(container: FakeContainer): PublishedPort[] {
	return container.spec.ports.map((port) =>
		isUp(container) && port.hostPort === undefined ? { ...port, hostPort: 32_768 + (port.port % 28_000) } : port,
	);
}

/** A refusal in the words of the real engine's border. */
export function refusal(
	what: string,
	status: number,
	failure: EngineFailure,
	sentence: string,
): SandboxError<"engine_failed"> {
	return new SandboxError("engine_failed", `${what}: ${sentence}`, { details: { status, failure, call: what } });
}

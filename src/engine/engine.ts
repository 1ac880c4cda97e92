/**
 * What the rest of the project asks of a container engine, in our words.
 * Implementations: `docker-engine.ts` (a Docker-compatible daemon) and, in the tests, a fake that obeys the same contract suite.
 *
 * All methods take an optional signal and reject with its reason when it aborts. Every call has an end of its own.
 * A failure is a `SandboxError`: `engine_unavailable` where no engine answers, `engine_failed` (with `details.failure`
 * saying why, in our words) where it refuses.
 */
import type { ProgressSink } from "../primitives/progress.js";

export type ContainerState = "created" | "running" | "paused" | "restarting" | "removing" | "exited" | "dead";

export interface EngineInfo {
	/** The daemon's own id: another daemon at the same address has another one. */
	readonly id: string;
	readonly version: string;
	readonly apiVersion: string;
	readonly os: string;
	/** In the words of image manifests: `amd64`, `arm64` … */
	readonly architecture: string;
	readonly cpus: number;
	readonly memoryBytes: number;
	readonly cgroupVersion: "1" | "2";
	readonly ociRuntimes: readonly string[];
	/** Whether ids inside are mapped to others outside (userns-remap) or the daemon runs as a plain user. */
	readonly usernsRemap: boolean;
	readonly rootless: boolean;
}

export interface MountSpec {
	readonly source: string;
	readonly target: string;
	readonly readOnly: boolean;
	/** Without what is mounted below the source on the host. Left out: with it. */
	readonly nonRecursive?: boolean;
}

export interface PublishedPort {
	readonly port: number;
	readonly protocol: "tcp" | "udp";
	/** Left out: the engine picks a free one. */
	readonly hostPort?: number;
	readonly hostIp: string;
}

/**
 * A container to be made. What every container of ours has is not here but set by the engine room on each:
 * all capabilities dropped, no-new-privileges, an init as PID 1, memory-swap = memory, core dumps 0, log driver none,
 * restart policy no, private IPC, mounts (never binds) with private propagation and no source made by the engine.
 */
export interface ContainerSpec {
	readonly name: string;
	/** Image id or reference. */
	readonly image: string;
	readonly entrypoint: readonly string[];
	readonly command: readonly string[];
	readonly env: Readonly<Record<string, string>>;
	readonly labels: Readonly<Record<string, string>>;
	/** `uid:gid`, or `root`. */
	readonly user: string;
	readonly workingDir: string;
	readonly hostname?: string;
	readonly memoryBytes: number;
	readonly cpus: number;
	readonly pids: number;
	readonly shmBytes: number;
	readonly stopGraceMs: number;
	readonly mounts: readonly MountSpec[];
	/** Target path → mount options, as in `{ "/tmp": "rw,exec,nosuid,nodev,size=64m,mode=1777" }`. */
	readonly tmpfs: Readonly<Record<string, string>>;
	/** `none`, or the name of a network. */
	readonly network: string;
	readonly ports: readonly PublishedPort[];
	readonly readOnlyRoot: boolean;
	/** Capabilities added back after all were dropped. */
	readonly capAdd: readonly string[];
	/** Name of an OCI runtime the engine knows; left out, its default. */
	readonly ociRuntime?: string;
}

/** One line of a container list. */
export interface ContainerSummary {
	readonly id: string;
	/** Without the leading slash. */
	readonly name: string;
	readonly state: ContainerState;
	/** The engine's own words, as in `Up 3 minutes (Paused)`. */
	readonly status: string;
	readonly imageReference: string;
	readonly imageId: string;
	readonly createdAtMs: number;
	readonly labels: Readonly<Record<string, string>>;
	readonly ports: readonly PublishedPort[];
}

export interface ContainerRecord {
	readonly id: string;
	readonly name: string;
	readonly state: ContainerState;
	readonly exitCode: number;
	readonly oomKilled: boolean;
	/** Host process id of the main process, 0 when it does not run. */
	readonly pid: number;
	readonly imageReference: string;
	readonly imageId: string;
	readonly createdAtMs: number;
	readonly startedAtMs: number;
	readonly labels: Readonly<Record<string, string>>;
	readonly ports: readonly PublishedPort[];
	readonly env: Readonly<Record<string, string>>;
	readonly user: string;
	/** The engine's answer as it came, for tests and `doctor`; its form is the engine's. */
	readonly raw: unknown;
}

export interface ExecSpec {
	readonly argv: readonly string[];
	readonly env: Readonly<Record<string, string>>;
	/** Left out: the container's user. */
	readonly user?: string;
	/** Absolute; left out: the container's. */
	readonly workingDir?: string;
	/** Whether stdin is open; otherwise the command reads an end of file at once. */
	readonly stdin: boolean;
	/** A terminal: stderr is merged into stdout. */
	readonly terminal?: { readonly columns: number; readonly rows: number };
}

/** Where an exec's output goes. A returned promise holds the stream back until it settles. */
export interface ExecSink {
	onStdout(chunk: Buffer): void | Promise<void>;
	onStderr(chunk: Buffer): void | Promise<void>;
}

export interface RunningExec {
	readonly id: string;
	/** Resolves when the bytes are accepted; resolves too, with the bytes dropped, when the command no longer reads. */
	write(data: Uint8Array): Promise<void>;
	/** End of the command's stdin. */
	endInput(): void;
	resize(size: { readonly columns: number; readonly rows: number }): Promise<void>;
	/**
	 * The stream has ended: all output has been handed over. Rejects when the connection broke or was given up with
	 * {@link close}, and with what the sink threw. A break looks like an end where the engine was killed: ask {@link Engine.inspectExec}.
	 */
	readonly ended: Promise<void>;
	/** Drops the connection. The command goes on. Safe to call at any time and again. */
	close(): void;
	/** Whether the open connection keeps the process alive (it does at first). */
	ref(): void;
	unref(): void;
}

export interface ExecRecord {
	readonly running: boolean;
	/** `null` while it runs. */
	readonly exitCode: number | null;
	/** Host process id, 0 when unknown. */
	readonly pid: number;
}

export interface ImageRecord {
	/** The content id, `sha256:…`. */
	readonly id: string;
	readonly tags: readonly string[];
	readonly digests: readonly string[];
	readonly os: string;
	readonly architecture: string;
	readonly sizeBytes: number;
	readonly createdAtMs: number;
	readonly labels: Readonly<Record<string, string>>;
	readonly env: Readonly<Record<string, string>>;
	readonly user: string;
}

export interface BuildSpec {
	/** The build context as a tar stream. */
	readonly context: NodeJS.ReadableStream;
	readonly tag: string;
	readonly dockerfile?: string;
	readonly buildArgs: Readonly<Record<string, string>>;
	readonly labels: Readonly<Record<string, string>>;
}

export interface NetworkSpec {
	readonly name: string;
	readonly labels: Readonly<Record<string, string>>;
	/** Whether containers on it may reach one another. */
	readonly interContainer: boolean;
	readonly internal: boolean;
}

export interface NetworkRecord {
	readonly id: string;
	readonly name: string;
	readonly labels: Readonly<Record<string, string>>;
	readonly raw: unknown;
}

export interface PathStat {
	readonly name: string;
	readonly size: number;
	/** Where a symbolic link leads, empty otherwise. */
	readonly linkTarget: string;
}

export interface CallOptions {
	readonly signal?: AbortSignal | undefined;
}

export interface ProgressOptions extends CallOptions {
	readonly onProgress?: ProgressSink | undefined;
}

export interface Engine {
	/** Where it is asked: `unix:///var/run/docker.sock`. */
	readonly address: string;

	/** Answers as soon as the engine does; the negotiated API version is in {@link info}. */
	ping(options?: CallOptions): Promise<void>;
	info(options?: CallOptions): Promise<EngineInfo>;

	/** Makes a container without starting it. Name taken: `engine_failed` with `name_taken`. */
	createContainer(spec: ContainerSpec, options?: CallOptions): Promise<{ id: string; warnings: readonly string[] }>;
	/** By whole id or by exact name; `undefined` when there is none. */
	inspectContainer(idOrName: string, options?: CallOptions): Promise<ContainerRecord | undefined>;
	/** All containers, in any state, that carry each of the labels with exactly that value. */
	listContainers(labels: Readonly<Record<string, string>>, options?: CallOptions): Promise<ContainerSummary[]>;
	/** Starts it, or leaves it running: `false` when it ran already. */
	startContainer(id: string, options?: CallOptions): Promise<boolean>;
	/** Tells the main process to end, kills it after the grace (rounded up to seconds); returns when it no longer runs. `false` when it did not run. */
	stopContainer(id: string, graceMs: number, options?: CallOptions): Promise<boolean>;
	/** Holds all its processes still, or leaves them so. Not running: `not_running`. */
	pauseContainer(id: string, options?: CallOptions): Promise<void>;
	/** Lets it go on, or leaves it running. Not running: `not_running`. */
	unpauseContainer(id: string, options?: CallOptions): Promise<void>;
	renameContainer(id: string, name: string, options?: CallOptions): Promise<void>;
	/** Kills and deletes it with its anonymous volumes; waits out a removal that is under way. `false` when there was none. */
	removeContainer(id: string, options?: CallOptions): Promise<boolean>;
	/** Reads one small regular file out of a container in any state (never followed out of it); `undefined` when it is not there. */
	readContainerFile(id: string, path: string, options?: CallOptions): Promise<Buffer | undefined>;
	/** What stands at a path in a container in any state; `undefined` when nothing does. */
	statContainerPath(id: string, path: string, options?: CallOptions): Promise<PathStat | undefined>;

	/** Starts a command in a running container. Container not running: `not_running`; paused: `paused`; none: `no_such_container`. */
	exec(containerId: string, spec: ExecSpec, sink: ExecSink, options?: CallOptions): Promise<RunningExec>;
	inspectExec(execId: string, options?: CallOptions): Promise<ExecRecord>;

	inspectImage(reference: string, options?: CallOptions): Promise<ImageRecord | undefined>;
	/** All images that carry each of the labels; an empty value matches any. */
	listImages(labels: Readonly<Record<string, string>>, options?: CallOptions): Promise<ImageRecord[]>;
	/** Builds with the classic builder and tags the result. A failing build rejects with `image_build_failed`, with the step and the log's end. */
	buildImage(spec: BuildSpec, options?: ProgressOptions): Promise<void>;
	/** A failing pull rejects with `image_unavailable` and the engine's own line. */
	pullImage(reference: string, options?: ProgressOptions): Promise<void>;
	/** Removes a tag, and the image with its last one. `false` when there was none. */
	removeImage(reference: string, options?: CallOptions): Promise<boolean>;

	createNetwork(spec: NetworkSpec, options?: CallOptions): Promise<string>;
	inspectNetwork(name: string, options?: CallOptions): Promise<NetworkRecord | undefined>;
	listNetworks(labels: Readonly<Record<string, string>>, options?: CallOptions): Promise<NetworkRecord[]>;
	/** `false` when there was none; `network_in_use` while a running container is on it. */
	removeNetwork(id: string, options?: CallOptions): Promise<boolean>;
}

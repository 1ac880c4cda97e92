/** The engine behind a Docker-compatible daemon: its own client for all calls but building and pulling. */
import { type EngineAddress, resolveEngineAddress } from "./address.js";
import { ContainerFiles } from "./container-files.js";
import { Containers } from "./containers.js";
import type {
	BuildSpec,
	CallOptions,
	ContainerRecord,
	ContainerSpec,
	ContainerSummary,
	Engine,
	EngineInfo,
	ExecRecord,
	ExecSink,
	ExecSpec,
	ImageRecord,
	NetworkRecord,
	NetworkSpec,
	PathStat,
	ProgressOptions,
	RunningExec,
} from "./engine.js";
import { EngineApi } from "./engine-api.js";
import { toEngineInfo } from "./engine-info.js";
import { Execs } from "./execs.js";
import { HttpClient } from "./http-client.js";
import { Images } from "./images.js";
import { objectOf } from "./json-fields.js";
import { Networks } from "./networks.js";

export interface ConnectOptions {
	/** Where the engine is: `unix:///PATH`, `tcp://HOST:PORT` …; left out, as the docker client finds it. */
	readonly host?: string | undefined;
	/** Variables that say where the engine is; left out, those of the process. */
	readonly env?: NodeJS.ProcessEnv | undefined;
	/** How long a connection may take to open; 10 s unless given. */
	readonly connectTimeoutMs?: number | undefined;
	/** How long a call that is answered at once may take in all; 30 s unless given. */
	readonly answerTimeoutMs?: number | undefined;
}

/**
 * The engine at an address, or where the environment and the docker client's context say. Does not connect:
 * each call does so by itself, and tells then with `engine_unavailable` that nobody is there.
 * Throws `unsupported` for an address that is not on this machine by its form (`ssh://`), `invalid_input` for no address.
 */
export function connectEngine(options: ConnectOptions = {}): DockerEngine {
	return new DockerEngine(resolveEngineAddress(options.host, options.env), options);
}

export class DockerEngine implements Engine {
	readonly address: string;
	readonly #where: EngineAddress;
	readonly #api: EngineApi;
	readonly #containers: Containers;
	readonly #files: ContainerFiles;
	readonly #execs: Execs;
	readonly #images: Images;
	readonly #networks: Networks;

	constructor(where: EngineAddress, limits: Pick<ConnectOptions, "connectTimeoutMs" | "answerTimeoutMs"> = {}) {
		this.address = where.address;
		this.#where = where;
		this.#api = new EngineApi(new HttpClient(where, limits));
		this.#containers = new Containers(this.#api);
		this.#files = new ContainerFiles(this.#api);
		this.#execs = new Execs(this.#api);
		this.#images = new Images(this.#api);
		this.#networks = new Networks(this.#api);
	}

	async ping(options: CallOptions = {}): Promise<void> {
		await this.#api.callForBytes({
			what: "asking whether the engine is there",
			subject: "engine",
			method: "GET",
			path: "/_ping",
			signal: options.signal,
		});
	}

	async info(options: CallOptions = {}): Promise<EngineInfo> {
		const ask = (path: string) =>
			this.#api.call({
				what: "asking the engine about itself",
				subject: "engine",
				method: "GET",
				path,
				signal: options.signal,
			});
		const [info, version] = await Promise.all([ask("/info"), ask("/version")]);
		return toEngineInfo(objectOf(info.data), objectOf(version.data));
	}

	createContainer(spec: ContainerSpec, options?: CallOptions): Promise<{ id: string; warnings: readonly string[] }> {
		return this.#containers.create(spec, options);
	}

	inspectContainer(idOrName: string, options?: CallOptions): Promise<ContainerRecord | undefined> {
		return this.#containers.inspect(idOrName, options);
	}

	listContainers(labels: Readonly<Record<string, string>>, options?: CallOptions): Promise<ContainerSummary[]> {
		return this.#containers.list(labels, options);
	}

	startContainer(id: string, options?: CallOptions): Promise<boolean> {
		return this.#containers.start(id, options);
	}

	stopContainer(id: string, graceMs: number, options?: CallOptions): Promise<boolean> {
		return this.#containers.stop(id, graceMs, options);
	}

	pauseContainer(id: string, options?: CallOptions): Promise<void> {
		return this.#containers.pause(id, options);
	}

	unpauseContainer(id: string, options?: CallOptions): Promise<void> {
		return this.#containers.unpause(id, options);
	}

	renameContainer(id: string, name: string, options?: CallOptions): Promise<void> {
		return this.#containers.rename(id, name, options);
	}

	removeContainer(id: string, options?: CallOptions): Promise<boolean> {
		return this.#containers.remove(id, options);
	}

	readContainerFile(id: string, path: string, options?: CallOptions): Promise<Buffer | undefined> {
		return this.#files.read(id, path, options);
	}

	statContainerPath(id: string, path: string, options?: CallOptions): Promise<PathStat | undefined> {
		return this.#files.stat(id, path, options);
	}

	exec(containerId: string, spec: ExecSpec, sink: ExecSink, options?: CallOptions): Promise<RunningExec> {
		return this.#execs.start(containerId, spec, sink, options);
	}

	inspectExec(execId: string, options?: CallOptions): Promise<ExecRecord> {
		return this.#execs.inspect(execId, options);
	}

	inspectImage(reference: string, options?: CallOptions): Promise<ImageRecord | undefined> {
		return this.#images.inspect(reference, options);
	}

	listImages(labels: Readonly<Record<string, string>>, options?: CallOptions): Promise<ImageRecord[]> {
		return this.#images.list(labels, options);
	}

	async buildImage(spec: BuildSpec, options: ProgressOptions = {}): Promise<void> {
		const { buildImage } = await import("./dockerode.js");
		await buildImage(this.#where, spec, options);
	}

	async pullImage(reference: string, options: ProgressOptions = {}): Promise<void> {
		const { pullImage } = await import("./dockerode.js");
		await pullImage(this.#where, reference, options);
	}

	removeImage(reference: string, options?: CallOptions): Promise<boolean> {
		return this.#images.remove(reference, options);
	}

	createNetwork(spec: NetworkSpec, options?: CallOptions): Promise<string> {
		return this.#networks.create(spec, options);
	}

	inspectNetwork(name: string, options?: CallOptions): Promise<NetworkRecord | undefined> {
		return this.#networks.inspect(name, options);
	}

	listNetworks(labels: Readonly<Record<string, string>>, options?: CallOptions): Promise<NetworkRecord[]> {
		return this.#networks.list(labels, options);
	}

	removeNetwork(id: string, options?: CallOptions): Promise<boolean> {
		return this.#networks.remove(id, options);
	}
}

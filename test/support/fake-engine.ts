/**
 * An engine in memory that obeys the same contract suite as the real one.
 *
 * Tests put containers (a stranger's too), images and networks in, look at `calls` and `containers`, let it fail or
 * freeze around chosen calls, and say with `program` what commands do.
 */

import type * as E from "../../src/engine/engine.js";
import { throwIfAborted } from "../../src/primitives/abort.js";
import { type Clock, systemClock } from "../../src/primitives/clock.js";
import { SandboxError } from "../../src/primitives/errors.js";
import { FakeExec, type FakeProgram } from "./fake-exec.js";
import { type FaultPoint, Faults, type Freeze } from "./fake-faults.js";
import * as W from "./fake-world.js";

export type EngineMethod = Exclude<keyof E.Engine, "address">;

export interface FakeCall {
	readonly method: EngineMethod;
	readonly args: readonly unknown[];
}

/** What a build makes of its context. Throws `image_build_failed`, or gives the image. */
export type FakeBuilder = (spec: E.BuildSpec, context: Buffer) => W.FakeImageInput | Promise<W.FakeImageInput>;

export interface FakeEngineOptions {
	readonly clock?: Clock;
	/** What every command does; exit code 0 and no output unless given. */
	readonly program?: FakeProgram;
	readonly builder?: FakeBuilder;
	readonly info?: Partial<E.EngineInfo>;
}

export class FakeEngine implements E.Engine {
	readonly address = "fake://";
	/** All calls so far, in order. */
	readonly calls: FakeCall[] = [];
	readonly containers = new Map<string, W.FakeContainer>();
	readonly images: W.FakeImage[] = [];
	/** What a pull finds. */
	readonly registry: W.FakeImage[] = [];
	readonly networks: W.FakeNetwork[] = [];
	/** Warnings that the next creates give. */
	warnings: readonly string[] = [];
	program: FakeProgram;
	builder: FakeBuilder;
	readonly #faults = new Faults();
	readonly #execs = new Map<string, { readonly exec: FakeExec; readonly containerId: string }>();
	readonly #clock: Clock;
	readonly #info: Partial<E.EngineInfo>;
	#made = 0;

	constructor(options: FakeEngineOptions = {}) {
		this.#clock = options.clock ?? systemClock;
		this.program = options.program ?? (() => 0);
		this.builder = options.builder ?? ((spec) => ({ labels: spec.labels }));
		this.#info = options.info ?? {};
		for (const name of ["bridge", "host", "none"]) this.addNetwork({ name });
	}

	/** Lets chosen calls fail; with `engine_unavailable` unless an error is given. */
	failAt(point: FaultPoint, error?: unknown): void {
		this.#faults.failAt(point, error);
	}

	/** Lets a chosen call hang until it is released or its signal aborts. */
	freezeAt(point: FaultPoint): Freeze {
		return this.#faults.freezeAt(point);
	}

	/** No failing and no freezing from here on. */
	clearFaults(): void {
		this.#faults.clear();
	}

	/** How many calls there were, of one method or of all. */
	count(method?: EngineMethod): number {
		return method === undefined ? this.calls.length : this.calls.filter((call) => call.method === method).length;
	}

	/** Puts an image in and gives its id. A text is its tag. */
	addImage(image: string | W.FakeImageInput = {}): string {
		return this.#store(this.images, image);
	}

	/** Puts an image where a pull finds it. */
	addRemoteImage(image: string | W.FakeImageInput): string {
		return this.#store(this.registry, image);
	}

	addNetwork(network: Partial<W.FakeNetwork> & { readonly name: string }): string {
		const id = W.fakeId(`network ${++this.#made}`);
		this.networks.push({ id, labels: {}, interContainer: true, internal: false, ...network });
		return network.id ?? id;
	}

	/** Puts a container in as it is and gives its id; its image is made where it is not there. */
	addContainer(input: W.FakeContainerInput): string {
		const {
			id = W.fakeId(`container ${++this.#made}`),
			state = "running",
			exitCode = 0,
			oomKilled = false,
			...rest
		} = input;
		const { createdAtMs = this.#clock.nowMs(), startedAtMs = state === "created" ? 0 : createdAtMs, ...asked } = rest;
		const spec: E.ContainerSpec = { ...W.DEFAULT_SPEC, image: "fake:latest", ...asked };
		if (!this.#findImage(spec.image)) this.addImage(spec.image.startsWith("sha256:") ? { id: spec.image } : spec.image);
		const image = this.#findImage(spec.image) ?? W.toFakeImage(spec.image, {});
		const labels = { ...image.record.labels, ...spec.labels };
		const files = new Map(Object.entries(image.files).map(([path, text]) => [path, Buffer.from(text)]));
		const fixed = { id, image, spec, labels, createdAtMs, files };
		this.containers.set(id, { ...fixed, name: spec.name, state, exitCode, oomKilled, startedAtMs });
		return id;
	}

	/** The main process ends by itself, and with it every command. */
	exit(id: string, exitCode = 0, oomKilled = false): void {
		const container = this.#container("ending", id);
		Object.assign(container, { state: "exited", exitCode, oomKilled });
		this.#killExecs(id);
	}

	/** The container of this name, for assertions. */
	named(name: string): W.FakeContainer | undefined {
		return [...this.containers.values()].find((container) => container.name === name);
	}

	ping(options?: E.CallOptions): Promise<void> {
		return this.#call("ping", [], options, () => {});
	}

	info(options?: E.CallOptions): Promise<E.EngineInfo> {
		return this.#call("info", [], options, () => ({
			id: "FAKE",
			version: "0.0.0",
			apiVersion: "1.41",
			os: "linux",
			architecture: "amd64",
			cpus: 2,
			memoryBytes: 8 * 1024 ** 3,
			cgroupVersion: "2" as const,
			ociRuntimes: ["runc"],
			usernsRemap: false,
			rootless: false,
			...this.#info,
		}));
	}

	createContainer(
		spec: E.ContainerSpec,
		options?: E.CallOptions,
	): Promise<{ id: string; warnings: readonly string[] }> {
		return this.#call("createContainer", [spec], options, () => {
			const what = `creating container ${spec.name}`;
			this.#refuseTakenName(what, spec.name);
			if (!this.#findImage(spec.image)) throw W.refusal(what, 404, "no_such_image", `No such image: ${spec.image}`);
			return { id: this.addContainer({ ...spec, state: "created" }), warnings: this.warnings };
		});
	}

	inspectContainer(idOrName: string, options?: E.CallOptions): Promise<E.ContainerRecord | undefined> {
		return this.#call("inspectContainer", [idOrName], options, () => {
			const container = this.containers.get(idOrName) ?? this.named(idOrName);
			return container && W.toRecord(container);
		});
	}

	listContainers(labels: Readonly<Record<string, string>>, options?: E.CallOptions): Promise<E.ContainerSummary[]> {
		return this.#call("listContainers", [labels], options, () =>
			[...this.containers.values()]
				.filter((container) => Object.entries(labels).every(([key, value]) => container.labels[key] === value))
				.sort((a, b) => b.createdAtMs - a.createdAtMs)
				.map((container) => {
					const { id, name, state, imageReference, imageId, createdAtMs, labels: all, ports } = W.toRecord(container);
					// As the real list does: whole seconds.
					const createdAt = Math.floor(createdAtMs / 1000) * 1000;
					return {
						id,
						name,
						state,
						status: state,
						imageReference,
						imageId,
						createdAtMs: createdAt,
						labels: all,
						ports,
					};
				}),
		);
	}

	startContainer(id: string, options?: E.CallOptions): Promise<boolean> {
		return this.#call("startContainer", [id], options, () => {
			const what = `starting container ${id}`;
			const container = this.#container(what, id);
			if (container.state === "running") return false;
			if (container.state === "paused") throw W.refusal(what, 409, "paused", "cannot start a paused container");
			if (container.state === "removing" || container.state === "dead")
				throw W.refusal(what, 409, "removal_in_progress", "container is marked for removal and cannot be started");
			if (!this.#findNetwork(container.spec.network))
				throw W.refusal(what, 404, "no_such_network", `network ${container.spec.network} not found`);
			this.#refuseTakenPort(what, container);
			Object.assign(container, { state: "running", startedAtMs: this.#clock.nowMs(), exitCode: 0, oomKilled: false });
			return true;
		});
	}

	stopContainer(id: string, graceMs: number, options?: E.CallOptions): Promise<boolean> {
		return this.#call("stopContainer", [id, graceMs], options, () => {
			const container = this.#container(`stopping container ${id}`, id);
			if (!W.isUp(container) && container.state !== "restarting") return false;
			this.exit(id, 143);
			return true;
		});
	}

	pauseContainer(id: string, options?: E.CallOptions): Promise<void> {
		return this.#call("pauseContainer", [id], options, () => this.#setPaused("pausing", id, "paused"));
	}

	unpauseContainer(id: string, options?: E.CallOptions): Promise<void> {
		return this.#call("unpauseContainer", [id], options, () => this.#setPaused("unpausing", id, "running"));
	}

	renameContainer(id: string, name: string, options?: E.CallOptions): Promise<void> {
		return this.#call("renameContainer", [id, name], options, () => {
			const what = `renaming container ${id}`;
			const container = this.#container(what, id);
			if (container.name === name) throw W.refusal(what, 400, "bad_request", "it has that name already");
			this.#refuseTakenName(what, name);
			container.name = name;
		});
	}

	removeContainer(id: string, options?: E.CallOptions): Promise<boolean> {
		return this.#call("removeContainer", [id], options, () => {
			if (!this.containers.delete(id)) return false;
			this.#killExecs(id);
			return true;
		});
	}

	readContainerFile(id: string, path: string, options?: E.CallOptions): Promise<Buffer | undefined> {
		return this.#call("readContainerFile", [id, path], options, () => this.#container("reading", id).files.get(path));
	}

	statContainerPath(id: string, path: string, options?: E.CallOptions): Promise<E.PathStat | undefined> {
		return this.#call("statContainerPath", [id, path], options, () => {
			const { files } = this.#container("looking at a path", id);
			const name = path.slice(path.lastIndexOf("/") + 1);
			const file = files.get(path);
			if (file) return { name, size: file.length, linkTarget: "" };
			return [...files.keys()].some((key) => key.startsWith(`${path}/`))
				? { name, size: 4096, linkTarget: "" }
				: undefined;
		});
	}

	exec(containerId: string, spec: E.ExecSpec, sink: E.ExecSink, options?: E.CallOptions): Promise<E.RunningExec> {
		return this.#call("exec", [containerId, spec], options, () => {
			const what = `preparing a command in container ${containerId}`;
			const container = this.#container(what, containerId);
			if (container.state === "paused") throw W.refusal(what, 409, "paused", `Container ${containerId} is paused`);
			if (container.state !== "running")
				throw W.refusal(what, 409, "not_running", `Container ${containerId} is not running`);
			const exec = new FakeExec(W.fakeId(`exec ${++this.#made}`), containerId, spec, sink, this.program);
			this.#execs.set(exec.id, { exec, containerId });
			return exec;
		});
	}

	inspectExec(execId: string, options?: E.CallOptions): Promise<E.ExecRecord> {
		return this.#call("inspectExec", [execId], options, () => {
			const found = this.#execs.get(execId);
			if (found) return found.exec.record;
			throw W.refusal("looking at a command", 404, "no_such_exec", `No such exec instance: ${execId}`);
		});
	}

	inspectImage(reference: string, options?: E.CallOptions): Promise<E.ImageRecord | undefined> {
		return this.#call("inspectImage", [reference], options, () => {
			const image = this.#findImage(reference);
			return image && { ...image.record, id: image.id, tags: [...image.tags] };
		});
	}

	listImages(labels: Readonly<Record<string, string>>, options?: E.CallOptions): Promise<E.ImageRecord[]> {
		return this.#call("listImages", [labels], options, () =>
			this.images
				.filter(({ record }) =>
					Object.entries(labels).every(([key, value]) =>
						value === "" ? Object.hasOwn(record.labels, key) : record.labels[key] === value,
					),
				)
				.map((image) => ({ ...image.record, id: image.id, tags: [...image.tags] })),
		);
	}

	buildImage(spec: E.BuildSpec, options?: E.ProgressOptions): Promise<void> {
		return this.#call("buildImage", [spec], options, async () => {
			const parts: Buffer[] = [];
			for await (const part of spec.context) parts.push(Buffer.from(part));
			const context = Buffer.concat(parts);
			const id = `sha256:${W.fakeId(`${context.toString("latin1")} ${JSON.stringify(spec.buildArgs)}`)}`;
			options?.onProgress?.({ stage: "build", message: "Step 1/1 : FROM fake", current: 1, total: 1 });
			const made = await this.builder(spec, context);
			this.addImage({ id, ...made, tags: [spec.tag] });
		});
	}

	pullImage(reference: string, options?: E.ProgressOptions): Promise<void> {
		return this.#call("pullImage", [reference], options, () => {
			const found = this.registry.find((image) => image.tags.includes(W.withTag(reference)));
			if (!found) {
				const reason = `pull access denied for ${reference}, repository does not exist`;
				throw new SandboxError("image_unavailable", `pulling image ${reference}: ${reason}`, {
					details: { reference, reason },
				});
			}
			options?.onProgress?.({ stage: "pull", message: `Pulling from ${reference}` });
			this.addImage({ ...found.record, id: found.id, tags: found.tags, files: found.files });
		});
	}

	removeImage(reference: string, options?: E.CallOptions): Promise<boolean> {
		return this.#call("removeImage", [reference], options, () => {
			const image = this.#findImage(reference);
			if (!image) return false;
			const left = image.tags.filter((tag) => tag !== W.withTag(reference) && !reference.startsWith("sha256:"));
			const used = [...this.containers.values()].some((container) => container.image === image);
			if (left.length === 0 && used)
				throw W.refusal(
					`removing image ${reference}`,
					409,
					"other",
					"conflict: a container is using its referenced image",
				);
			image.tags.splice(0, image.tags.length, ...left);
			if (left.length === 0) this.images.splice(this.images.indexOf(image), 1);
			return true;
		});
	}

	createNetwork(spec: E.NetworkSpec, options?: E.CallOptions): Promise<string> {
		return this.#call("createNetwork", [spec], options, () => {
			if (this.networks.some((network) => network.name === spec.name))
				throw W.refusal(
					`creating network ${spec.name}`,
					409,
					"name_taken",
					`network with name ${spec.name} already exists`,
				);
			return this.addNetwork(spec);
		});
	}

	inspectNetwork(name: string, options?: E.CallOptions): Promise<E.NetworkRecord | undefined> {
		return this.#call("inspectNetwork", [name], options, () => {
			const network = this.#findNetwork(name);
			return network && { id: network.id, name: network.name, labels: network.labels, raw: network };
		});
	}

	listNetworks(labels: Readonly<Record<string, string>>, options?: E.CallOptions): Promise<E.NetworkRecord[]> {
		return this.#call("listNetworks", [labels], options, () =>
			this.networks
				.filter((network) => Object.entries(labels).every(([key, value]) => network.labels[key] === value))
				.map((network) => ({ id: network.id, name: network.name, labels: network.labels, raw: network })),
		);
	}

	removeNetwork(id: string, options?: E.CallOptions): Promise<boolean> {
		return this.#call("removeNetwork", [id], options, () => {
			const network = this.#findNetwork(id);
			if (!network) return false;
			const names = [network.id, network.name];
			if (
				[...this.containers.values()].some((container) => W.isUp(container) && names.includes(container.spec.network))
			)
				throw W.refusal(
					`removing network ${id}`,
					403,
					"network_in_use",
					`network ${network.name} has active endpoints`,
				);
			this.networks.splice(this.networks.indexOf(network), 1);
			return true;
		});
	}

	async #call<T>(
		method: EngineMethod,
		args: readonly unknown[],
		options: E.CallOptions | undefined,
		work: () => T | Promise<T>,
	): Promise<T> {
		throwIfAborted(options?.signal);
		this.calls.push({ method, args });
		await this.#faults.pass(method, "before", options?.signal);
		throwIfAborted(options?.signal);
		const result = await work();
		await this.#faults.pass(method, "after", options?.signal);
		return result;
	}

	#container(what: string, id: string): W.FakeContainer {
		const container = this.containers.get(id) ?? this.named(id);
		if (!container) throw W.refusal(what, 404, "no_such_container", `No such container: ${id}`);
		return container;
	}

	#setPaused(doing: string, id: string, state: "paused" | "running"): void {
		const what = `${doing} container ${id}`;
		const container = this.#container(what, id);
		if (!W.isUp(container)) throw W.refusal(what, 409, "not_running", `Container ${id} is not running`);
		container.state = state;
	}

	#refuseTakenName(what: string, name: string): void {
		const holder = this.named(name);
		if (holder)
			throw W.refusal(
				what,
				409,
				"name_taken",
				`Conflict. The container name "/${name}" is already in use by container "${holder.id}".`,
			);
	}

	#refuseTakenPort(what: string, container: W.FakeContainer): void {
		const wanted = container.spec.ports.map((port) => port.hostPort).filter((port) => port !== undefined);
		for (const other of this.containers.values()) {
			const taken = W.isUp(other) ? W.toPorts(other).find((port) => wanted.includes(port.hostPort ?? -1)) : undefined;
			if (taken)
				throw W.refusal(
					what,
					500,
					"port_taken",
					`Bind for ${taken.hostIp}:${taken.hostPort} failed: port is already allocated`,
				);
		}
	}

	#killExecs(containerId: string): void {
		for (const { exec, containerId: of } of this.#execs.values()) if (of === containerId) exec.kill();
	}

	#findImage(reference: string): W.FakeImage | undefined {
		return this.images.find((image) => image.id === reference || image.tags.includes(W.withTag(reference)));
	}

	#findNetwork(idOrName: string): W.FakeNetwork | undefined {
		return this.networks.find((network) => network.id === idOrName || network.name === idOrName);
	}

	/** A tag belongs to one image only; an id that is there already gains the tags. */
	#store(images: W.FakeImage[], input: string | W.FakeImageInput): string {
		const image = W.toFakeImage(String(++this.#made), typeof input === "string" ? { tags: [input] } : input);
		for (const other of images)
			other.tags.splice(0, other.tags.length, ...other.tags.filter((tag) => !image.tags.includes(tag)));
		const same = images.find((other) => other.id === image.id);
		if (same) same.tags.push(...image.tags);
		else images.push(image);
		return image.id;
	}
}

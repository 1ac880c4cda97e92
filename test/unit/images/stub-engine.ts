/** An engine that knows images only: what it holds, what it was asked, and what building and pulling should do. */
import type {
	BuildSpec,
	Engine,
	EngineInfo,
	ImageRecord,
	PathStat,
	ProgressOptions,
} from "../../../src/engine/engine.js";
import { SandboxError } from "../../../src/primitives/errors.js";

export class StubEngine {
	readonly images = new Map<string, ImageRecord>();
	/** Method names in the order of the calls. */
	readonly calls: string[] = [];
	readonly containers = new Set<string>();
	/** Paths inside every container: text, or `{ to }` for a link. */
	files: Readonly<Record<string, string | { readonly to: string }>> = {};
	platform = { os: "linux", architecture: "amd64" };
	onBuild: (spec: BuildSpec, options: ProgressOptions) => Promise<void> = async () => {};
	onPull: (reference: string, options: ProgressOptions) => Promise<void> = async () => {};
	#made = 0;

	/** Every other method of an engine throws. */
	asEngine(): Engine {
		return new Proxy(this, {
			get: (target, name) => {
				if (name in target) {
					const member: unknown = Reflect.get(target, name, target);
					return typeof member === "function" ? member.bind(target) : member;
				}
				return () => {
					throw new Error(`the stub has no ${String(name)}()`);
				};
			},
		}) as unknown as Engine;
	}

	readonly address = "unix:///stub.sock";

	/** Puts an image there under a tag. */
	add(tag: string, more: Partial<ImageRecord> = {}): ImageRecord {
		this.#made += 1;
		const image: ImageRecord = {
			id: `sha256:${this.#made.toString(16).padStart(64, "0")}`,
			tags: [tag],
			digests: [],
			os: "linux",
			architecture: "amd64",
			sizeBytes: 1000,
			createdAtMs: 0,
			labels: {},
			env: {},
			user: "",
			...more,
		};
		this.images.set(tag, image);
		return image;
	}

	async info(): Promise<EngineInfo> {
		this.calls.push("info");
		return this.platform as EngineInfo;
	}

	async inspectImage(reference: string): Promise<ImageRecord | undefined> {
		this.calls.push("inspectImage");
		return this.images.get(reference) ?? [...this.images.values()].find((image) => image.id === reference);
	}

	async listImages(labels: Readonly<Record<string, string>>): Promise<ImageRecord[]> {
		this.calls.push("listImages");
		return [...this.images.values()].filter((image) => Object.keys(labels).every((label) => label in image.labels));
	}

	async buildImage(spec: BuildSpec, options: ProgressOptions = {}): Promise<void> {
		this.calls.push("buildImage");
		await drain(spec.context);
		await this.onBuild(spec, options);
		options.signal?.throwIfAborted();
		this.add(spec.tag, { labels: spec.labels });
	}

	async pullImage(reference: string, options: ProgressOptions = {}): Promise<void> {
		this.calls.push("pullImage");
		await this.onPull(reference, options);
		this.add(reference);
	}

	async listContainers(): Promise<[]> {
		this.calls.push("listContainers");
		return [];
	}

	async createContainer(spec: { readonly image: string }): Promise<{ id: string; warnings: string[] }> {
		this.calls.push("createContainer");
		if (![...this.images.values()].some((image) => image.id === spec.image))
			throw new SandboxError("engine_failed", "no such image", {
				details: { status: 404, failure: "no_such_image", call: "create" },
			});
		const id = `container-${this.calls.length}`;
		this.containers.add(id);
		return { id, warnings: [] };
	}

	async removeContainer(id: string): Promise<boolean> {
		this.calls.push("removeContainer");
		return this.containers.delete(id);
	}

	async readContainerFile(_: string, path: string): Promise<Buffer | undefined> {
		const file = this.files[path];
		return typeof file === "string" ? Buffer.from(file) : undefined;
	}

	async statContainerPath(_: string, path: string): Promise<PathStat | undefined> {
		const file = this.files[path];
		if (file === undefined) return undefined;
		return { name: path, size: 0, linkTarget: typeof file === "string" ? "" : file.to };
	}
}

async function drain(stream: NodeJS.ReadableStream): Promise<void> {
	for await (const _ of stream);
}

/** What a sandbox must know of the inside of an image before anything runs in it. */
import { createHash, randomBytes } from "node:crypto";
import { posix } from "node:path";
import type { CallOptions, ContainerSpec, Engine } from "../engine/engine.js";
import { isSandboxError, SandboxError } from "../primitives/errors.js";
import { MiB } from "../primitives/units.js";
import { Memory } from "./memory.js";
import { SharedWork } from "./shared-work.js";

export type Libc = "glibc" | "musl" | "unknown";

export interface ImageFacts {
	/** The text of /etc/passwd, empty where there is none. */
	readonly passwd: string;
	/** The text of /etc/group, empty where there is none. */
	readonly group: string;
	/** Which C library programs in it are linked with: what is compiled against one does not load in the other. */
	readonly libc: Libc;
	/** Whether there is a /bin/sh. */
	readonly hasShell: boolean;
}

/** On the containers that are made to look into an image, and on nothing else. They are never started. */
export const FACTS_LABELS: Readonly<Record<string, string>> = { "sandboxes.role": "image-facts" };

/** A container of ours older than this was left by a process that ended before it could remove it. */
const LEFT_BEHIND_MS = 10 * 60 * 1000;
const MAX_LINKS = 5;

/**
 * Where each C library is, in the order in which it is looked for. Either may stand beside the other: glibc's own library
 * decides, while its loader is also given by a layer that lets musl run glibc's programs.
 */
const LIBRARIES: readonly (readonly [Libc, string])[] = [
	["glibc", "/lib/x86_64-linux-gnu/libc.so.6"],
	["glibc", "/lib/aarch64-linux-gnu/libc.so.6"],
	["glibc", "/lib64/libc.so.6"],
	["glibc", "/lib/libc.so.6"],
	["glibc", "/usr/lib/libc.so.6"],
	["musl", "/lib/ld-musl-x86_64.so.1"],
	["musl", "/lib/ld-musl-aarch64.so.1"],
	["glibc", "/lib64/ld-linux-x86-64.so.2"],
	["glibc", "/lib/ld-linux-aarch64.so.1"],
];

type Kept = ImageFacts & { readonly imageId: string; readonly form: 1 };

/** Reads the facts of an image once, and remembers them: an image id never changes its content. */
export class ImageFactsReader {
	readonly #engine: Engine;
	readonly #memory: Memory<Kept>;
	readonly #reading = new SharedWork<ImageFacts>();

	constructor(engine: Engine, cacheDirectory: string | undefined) {
		this.#engine = engine;
		this.#memory = new Memory<Kept>(cacheDirectory, toKept);
	}

	/** Throws `image_unavailable` when the engine has no such image (any more). */
	async read(imageId: string, options: CallOptions = {}): Promise<ImageFacts> {
		const name = nameOf(imageId);
		const kept = await this.#memory.find(name);
		if (kept?.imageId === imageId) return toFacts(kept);
		return this.#reading.run(
			imageId,
			async (signal) => {
				const facts = await lookInto(this.#engine, imageId, signal);
				await this.#memory.keep(name, { form: 1, imageId, ...facts });
				return facts;
			},
			options,
		);
	}
}

async function lookInto(engine: Engine, imageId: string, signal: AbortSignal): Promise<ImageFacts> {
	await removeLeftBehind(engine, signal);
	// Not under the signal: an engine carries a create out although nobody waits for it, and nobody would remove it then.
	const { id } = await engine.createContainer(toSpec(imageId)).catch((error: unknown) => {
		if (!isSandboxError(error, "engine_failed") || error.details.failure !== "no_such_image") throw error;
		throw new SandboxError("image_unavailable", `image ${imageId} is not on the engine any more`, {
			details: { reference: imageId, reason: "it was removed" },
			cause: error,
		});
	});
	try {
		const [passwd, group, shell, libc] = await Promise.all([
			readText(engine, id, "/etc/passwd", signal),
			readText(engine, id, "/etc/group", signal),
			follow(engine, id, "/bin/sh", signal),
			findLibc(engine, id, signal),
		]);
		return { passwd, group, libc, hasShell: shell !== undefined };
	} finally {
		await engine.removeContainer(id).catch(() => false);
	}
}

async function removeLeftBehind(engine: Engine, signal: AbortSignal): Promise<void> {
	const before = Date.now() - LEFT_BEHIND_MS;
	for (const container of await engine.listContainers(FACTS_LABELS, { signal })) {
		if (container.createdAtMs < before && container.state === "created")
			await engine.removeContainer(container.id, { signal }).catch(() => false);
	}
}

async function findLibc(engine: Engine, id: string, signal: AbortSignal): Promise<Libc> {
	for (const [libc, path] of LIBRARIES) if (await follow(engine, id, path, signal)) return libc;
	return "unknown";
}

async function readText(engine: Engine, id: string, path: string, signal: AbortSignal): Promise<string> {
	const real = await follow(engine, id, path, signal);
	const content = real === undefined ? undefined : await engine.readContainerFile(id, real, { signal });
	return content?.toString("utf8") ?? "";
}

/** Where a path leads after its symbolic links, `undefined` when nothing is there. */
async function follow(engine: Engine, id: string, path: string, signal: AbortSignal): Promise<string | undefined> {
	let at = path;
	for (let links = 0; links <= MAX_LINKS; links++) {
		const stat = await engine.statContainerPath(id, at, { signal });
		if (!stat) return undefined;
		if (stat.linkTarget === "") return at;
		const target = posix.resolve(posix.dirname(at), stat.linkTarget);
		if (target === at) return undefined;
		at = target;
	}
	return undefined;
}

function toSpec(imageId: string): ContainerSpec {
	return {
		name: `sandboxes-facts-${randomBytes(8).toString("hex")}`,
		image: imageId,
		// An image may have no command of its own; this one is never run.
		entrypoint: ["/never-started"],
		command: [],
		env: {},
		labels: FACTS_LABELS,
		user: "root",
		workingDir: "/",
		memoryBytes: MiB(64),
		cpus: 1,
		pids: 16,
		shmBytes: MiB(1),
		stopGraceMs: 1000,
		mounts: [],
		tmpfs: {},
		network: "none",
		ports: [],
		readOnlyRoot: true,
		capAdd: [],
	};
}

function nameOf(imageId: string): string {
	return `image-${/^sha256:([0-9a-f]{64})$/.exec(imageId)?.[1] ?? createHash("sha256").update(imageId).digest("hex")}`;
}

function toKept(value: unknown): Kept | undefined {
	const record = value as Partial<Record<keyof Kept, unknown>> | null;
	const { form, imageId, passwd, group, libc, hasShell } = record ?? {};
	if (form !== 1 || typeof imageId !== "string" || typeof passwd !== "string" || typeof group !== "string")
		return undefined;
	if ((libc !== "glibc" && libc !== "musl" && libc !== "unknown") || typeof hasShell !== "boolean") return undefined;
	return { form, imageId, passwd, group, libc, hasShell };
}

function toFacts({ passwd, group, libc, hasShell }: Kept): ImageFacts {
	return { passwd, group, libc, hasShell };
}

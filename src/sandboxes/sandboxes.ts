/** The class: names that users choose, mapped to containers over persistent workspaces. */
import { connectEngine } from "../engine/docker-engine.js";
import type { Engine } from "../engine/engine.js";
import { Commands, EXEC_PATHS, type ExecPath } from "../exec/commands.js";
import { type ImageInfo, Images, type RuntimeSource } from "../images/images.js";
import { asRecord, invalid, refuseUnknownKeys } from "../primitives/checks.js";
import { type Clock, toWholeClock } from "../primitives/clock.js";
import { isSandboxError, messageOf, SandboxError } from "../primitives/errors.js";
import type { Bytes } from "../primitives/units.js";
import { resolveRootPath } from "../workspace/root.js";
import { type Context, findRow, keyOf } from "./context.js";
import { createSandbox, NAME_LOCK_TIMEOUT_MS, planSandbox, toHandle } from "./create.js";
import { type Action, newestFirst } from "./decide.js";
import { DEFAULT_PREFIX, type ShapeDefaults } from "./defaults.js";
import { type EventSink, toSafeSink } from "./events.js";
import { fleetLabels, LABEL } from "./labels.js";
import { listSandboxes, type SandboxInfo } from "./list.js";
import { parseName, parsePrefix } from "./names.js";
import { observeAll, observeByName } from "./observe.js";
import { openContext } from "./open.js";
import type { CallOptions, CreateOptions, PlanOptions, ProgressCallOptions } from "./options.js";
import { describeReason, type Reason } from "./reasons.js";
import { removeLocked } from "./remove.js";
import { normaliseCall, normaliseCreate, normaliseDefaults, type RequestContext } from "./request.js";
import { findOrReserve } from "./reserve.js";
import type { Sandbox } from "./sandbox.js";

/** Options of the constructor. */
export interface SandboxesOptions {
	/** Directory that holds workspaces and ledger; made when first needed, with mode 0700. Default: the per-user data directory. */
	readonly root?: string | undefined;
	/** Separates fleets on one host: containers are named `<prefix>-<name>`. Default `sbx`. */
	readonly prefix?: string | undefined;
	/** The engine, or where it is (`unix:///…`, `tcp://…`). Default: `DOCKER_HOST`, then docker's current context, then the usual sockets. */
	readonly engine?: Engine | string | undefined;
	/** Defaults of this instance, instead of the library's. */
	readonly defaults?:
		| Partial<Omit<ShapeDefaults, "memory" | "shmSize"> & { readonly memory: Bytes; readonly shmSize: Bytes }>
		| undefined;
	/** More runtimes, or others under the shipped names: an image reference, or a folder with a Dockerfile. */
	readonly images?: Readonly<Record<string, RuntimeSource>> | undefined;
	/**
	 * How commands reach a sandbox. `session` (default): shells that wait inside take them, in milliseconds; what a shell is
	 * not for goes by the engine. `engine`: each is an exec of the engine. Results are the same.
	 */
	readonly exec?: ExecPath | undefined;
	readonly clock?: Clock | undefined;
	/** Told of what happens. What it throws is dropped. */
	readonly onEvent?: EventSink | undefined;
}

/** What `create()` would do, and why. */
export interface PlanResult {
	readonly name: string;
	readonly action: Exclude<Action, "refuse">;
	/** Empty exactly for `serve` and `start`. */
	readonly reasons: readonly Reason[];
	/** The reasons as sentences. */
	readonly because: readonly string[];
	/** The container it is about, where there is one. */
	readonly id: string | undefined;
}

/** The runtimes and their images. */
export interface RuntimeImages {
	/** Every runtime with its image, built or not. */
	list(options?: CallOptions): Promise<ImageInfo[]>;
	/** Builds or pulls the image of a runtime unless it is there. Throws `invalid_input`, `image_build_failed`, `image_unavailable`. */
	build(runtime: string, options?: ProgressCallOptions): Promise<ImageInfo>;
}

const KNOWN_OPTIONS = ["root", "prefix", "engine", "defaults", "images", "exec", "clock", "onEvent"];

/**
 * Named sandboxes of one root and one prefix.
 *
 * Any number of processes may use the same root and prefix at once; one name is always one sandbox. Nothing runs in the
 * background and nothing needs closing.
 *
 * Throws `invalid_input` for bad options; the root is made and the engine asked by the first call that needs them.
 *
 * @example
 * ```ts
 * import { MiB, Sandboxes } from "sandboxes";
 * const sandboxes = new Sandboxes({ root: "/var/tmp/sandboxes-example" });
 * const box = await sandboxes.create("workspace-42", { memory: MiB(512) });
 * const result = await box.exec("echo $((1 + 1))");
 * console.log(result.stdout); // 2
 * await sandboxes.remove("workspace-42");
 * ```
 */
export class Sandboxes {
	readonly root: string;
	readonly prefix: string;
	/** The runtimes' images. */
	readonly images: RuntimeImages;
	readonly #engine: Engine;
	readonly #images: Images;
	readonly #execPath: ExecPath;
	readonly #clock: Clock;
	readonly #emit: EventSink;
	readonly #requestContext: RequestContext;
	#context: Promise<Context> | undefined;

	constructor(options: SandboxesOptions = {}) {
		const raw = asRecord("options", options);
		refuseUnknownKeys("options", raw, KNOWN_OPTIONS);
		this.root = resolveRootPath(raw["root"]);
		this.prefix = parsePrefix(raw["prefix"] ?? DEFAULT_PREFIX);
		this.#engine = toEngine(options.engine);
		const execPath = options.exec ?? "session";
		if (!EXEC_PATHS.includes(execPath)) throw invalid("exec", `"session" or "engine"`, execPath);
		this.#execPath = execPath;
		this.#clock = toWholeClock(options.clock);
		if (options.onEvent !== undefined && typeof options.onEvent !== "function")
			throw invalid("onEvent", "a function", options.onEvent);
		this.#emit = toSafeSink(options.onEvent);
		this.#images = new Images({
			engine: this.#engine,
			...(options.images ? { custom: options.images } : {}),
			cacheDirectory: `${this.root}/images`,
		});
		const socket = /^unix:\/\/(\/.*)$/.exec(this.#engine.address)?.[1];
		this.#requestContext = {
			defaults: normaliseDefaults(raw["defaults"]),
			caller: { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 },
			guarded: { root: this.root, engineSocket: socket },
		};
		this.images = {
			list: async (call) => this.#images.list(normaliseCall(call)),
			build: async (runtime, call) => {
				this.#images.check({ runtime });
				// What is learned of images is kept in the root, which has to be one first.
				await this.#open();
				return this.#images.build(runtime, call);
			},
		};
	}

	/**
	 * Gives the sandbox of this name: the one that is there if it serves what is asked (started first if it is stopped), a
	 * rebuilt one over the same workspace if it does not, a new one if there is none.
	 *
	 * Serves means: capacities meet or exceed, ceilings meet or undercut, identities are the same; it is younger than its own
	 * and the asked lifetime. Options left out take their defaults first. A rebuild keeps workspace and home and loses what
	 * else was in the container; one that fails leaves the old container as it was. Callers of one name in any number of
	 * processes get one container. When it runs and serves, nothing is locked or written.
	 *
	 * Throws `invalid_input` (before any effect), `conflict` when something foreign holds the container's name,
	 * `image_unavailable`, `image_build_failed`, `unsupported`, `engine_unavailable`, `engine_failed`, `lock_timeout`.
	 *
	 * @example
	 * ```ts
	 * import { Sandboxes } from "sandboxes";
	 * const sandboxes = new Sandboxes({ root: "/var/tmp/sandboxes-example" });
	 * const first = await sandboxes.create("reused");
	 * const again = await sandboxes.create("reused");
	 * console.log(first.id === again.id, again.outcome); // true served
	 * await sandboxes.remove("reused");
	 * ```
	 */
	async create(name: string, options: CreateOptions = {}): Promise<Sandbox> {
		const request = normaliseCreate(name, options, this.#requestContext);
		this.#images.check(request.image);
		request.signal?.throwIfAborted();
		return createSandbox(await this.#open(), request);
	}

	/** What {@link create} would do now, and why, without doing it: no container, directory or image is made. Throws like it. */
	async plan(name: string, options: PlanOptions = {}): Promise<PlanResult> {
		const request = normaliseCreate(name, options, this.#requestContext);
		this.#images.check(request.image);
		const decision = await planSandbox(await this.#open(), request);
		if (decision.action === "refuse") throw new TypeError("a refused plan is thrown");
		return {
			name: request.name,
			action: decision.action,
			reasons: decision.reasons,
			because: decision.reasons.map(describeReason),
			id: decision.container?.id,
		};
	}

	/** Gives whatever is there under a name, in any state, and never starts or rebuilds it. Throws `not_found`, `conflict` never. */
	async get(name: string, options: CallOptions = {}): Promise<Sandbox> {
		const known = parseName(name);
		const { signal } = normaliseCall(options);
		const context = await this.#open();
		// By its name in one call; only one that is not found so is looked for by its labels.
		const named = await observeByName(context, known, signal);
		const observed = named.record ? named.observed : await observeAll(context, known, signal);
		const [container] = [...observed.ours].sort(newestFirst);
		const record = named.record ?? (container && (await context.engine.inspectContainer(container.id, { signal })));
		if (!container || !record) throw await this.#notFound(context, known);
		if (!container.recorded.ok) {
			throw new SandboxError(
				"unsupported",
				`sandbox ${known}: its container cannot be read: ${container.recorded.problem}`,
				{
					details: { what: container.recorded.problem },
					hint: `create("${known}") rebuilds it over its workspace`,
				},
			);
		}
		return toHandle(context, record, container, { id: record.id, outcome: "served", reasons: [], fresh: false });
	}

	/** As {@link get}, with `undefined` where there is no container. */
	async find(name: string, options: CallOptions = {}): Promise<Sandbox | undefined> {
		try {
			return await this.get(name, options);
		} catch (error) {
			if (isSandboxError(error, "not_found")) return undefined;
			throw error;
		}
	}

	/**
	 * All sandboxes of this root and prefix, by name, in one engine call. One whose container was removed behind our back is
	 * listed as `missing`: its workspace is there.
	 */
	async list(options: CallOptions = {}): Promise<SandboxInfo[]> {
		const { signal } = normaliseCall(options);
		return listSandboxes(await this.#open(), signal);
	}

	/** Stops the sandbox of this name, as `box.stop()` does. Throws `not_found`. */
	async stop(name: string, options: CallOptions = {}): Promise<void> {
		const box = await this.get(name, options);
		await box.stop(options);
	}

	/**
	 * Deletes container, workspace and home of a name, whatever they hold and whoever owns the files. `false` when there was
	 * nothing; gone already is no error. A workspace without a container counts as something. Waits for another process
	 * that works on the name. Throws `engine_unavailable`, `engine_failed`, `workspace_unusable`; what is left then is removed by the next call.
	 */
	async remove(name: string, options: CallOptions = {}): Promise<boolean> {
		const known = parseName(name);
		const { signal } = normaliseCall(options);
		const context = await this.#open();
		return context.locks.hold(
			keyOf(context, known),
			(both, lock) => removeLocked(context, known, { signal: both, lock }),
			{
				timeoutMs: NAME_LOCK_TIMEOUT_MS,
				...(signal ? { signal } : {}),
			},
		);
	}

	/**
	 * Removes every sandbox of this root and prefix; gives how many there were. One that cannot be removed does not keep the
	 * others: throws `release_failed` at the end, naming each and why.
	 */
	async removeAll(options: CallOptions = {}): Promise<number> {
		const call = normaliseCall(options);
		const context = await this.#open();
		const names = await this.#allNames(context);
		const removed: string[] = [];
		const failed: { name: string; error: string }[] = [];
		const queue = names.values();
		const worker = async (): Promise<void> => {
			for (const name of queue) {
				try {
					if (await this.remove(name, call)) removed.push(name);
				} catch (error) {
					failed.push({ name, error: messageOf(error) });
				}
			}
		};
		await Promise.all(Array.from({ length: 4 }, worker));
		call.signal?.throwIfAborted();
		if (failed.length > 0) {
			const which = failed.map(({ name, error }) => `${name} (${error})`).join("; ");
			throw new SandboxError(
				"release_failed",
				`removed ${removed.length} of ${names.length} sandboxes; not removed: ${which}`,
				{
					details: { removed, failed },
					hint: "mend the cause and repeat the call",
				},
			);
		}
		return removed.length;
	}

	/**
	 * The workspace of a name on the host. For a name that has none yet an empty one is made, which the first `create()` uses:
	 * fill it before. Listed as `missing` until then.
	 */
	async workspaceDir(name: string, options: CallOptions = {}): Promise<string> {
		const known = parseName(name);
		const { signal } = normaliseCall(options);
		const { shape } = normaliseCreate(known, {}, this.#requestContext);
		return findOrReserve(await this.#open(), known, shape.user, signal);
	}

	/** Resolves when the engine answers. Throws `engine_unavailable` with where it was looked for and why. */
	async ping(options: CallOptions = {}): Promise<void> {
		await this.#engine.ping(normaliseCall(options));
	}

	#open(): Promise<Context> {
		this.#context ??= openContext({
			rootPath: this.root,
			prefix: this.prefix,
			engine: this.#engine,
			images: this.#images,
			commands: new Commands(this.#engine, { path: this.#execPath }),
			clock: this.#clock,
			emit: this.#emit,
		}).catch((error: unknown) => {
			this.#context = undefined;
			throw error;
		});
		return this.#context;
	}

	async #allNames(context: Context): Promise<string[]> {
		const names = new Set<string>();
		for (const container of await context.engine.listContainers(fleetLabels(context.fleet, "sandbox"))) {
			const name = container.labels[LABEL.name];
			if (name !== undefined) names.add(name);
		}
		for (const { row } of (await context.ledger.all()).values()) {
			if (row.prefix === this.prefix && row.state !== "released") names.add(row.name);
		}
		for (const link of await context.workspaces.links()) if (link.prefix === this.prefix) names.add(link.name);
		return [...names].sort();
	}

	async #notFound(context: Context, name: string): Promise<SandboxError<"not_found">> {
		const row = await findRow(context, name);
		const kept = row
			? `sandbox ${name}: it has a workspace but no container`
			: `sandbox ${name}: there is none of this name`;
		return new SandboxError("not_found", `${kept} (prefix ${this.prefix}, root ${this.root})`, {
			details: { name },
			hint: row
				? `create it again over its workspace: create("${name}"), or sbx create ${name}`
				: `create it first: create("${name}"), or sbx create ${name}`,
		});
	}
}

function toEngine(engine: SandboxesOptions["engine"]): Engine {
	if (engine === undefined) return connectEngine();
	if (typeof engine === "string") return connectEngine({ host: engine });
	if (typeof engine === "object" && engine !== null && typeof engine.createContainer === "function") return engine;
	throw invalid("engine", "an engine or an address such as unix:///var/run/docker.sock", engine);
}

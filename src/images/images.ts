/** Turns a runtime or an image reference into an image identity: found, built or pulled. Knows no sandbox. */
import type { CallOptions, Engine, ImageRecord } from "../engine/engine.js";
import { throwIfAborted } from "../primitives/abort.js";
import { invalid } from "../primitives/checks.js";
import type { ProgressSink } from "../primitives/progress.js";
import { buildRuntime, RUNTIME_LABEL, toBuildError, toTag } from "./build-runtime.js";
import { getRecipe, type Recipe, type RuntimeSource, readCatalog, shippedImages } from "./catalog.js";
import { ContentHashes } from "./content-hash.js";
import { type ImageFacts, ImageFactsReader } from "./image-facts.js";
import { OneAtATime } from "./one-at-a-time.js";
import { PlatformCheck } from "./platform.js";
import { pullImage } from "./pull-image.js";
import { parseReference, toText } from "./reference.js";
import { SharedWork, type WaitOptions } from "./shared-work.js";

export type { RuntimeSource };

export interface ImagesOptions {
	readonly engine: Engine;
	/** The directory of the shipped runtimes. Left out: the one of this package. */
	readonly catalog?: string | undefined;
	/** Runtimes of the user's own, by name. One with the name of a shipped runtime takes its place. */
	readonly custom?: Readonly<Record<string, RuntimeSource>> | undefined;
	/** Where what is known of images is kept between processes. Left out: nowhere. */
	readonly cacheDirectory?: string | undefined;
}

export type WantedImage = { readonly runtime: string } | { readonly image: string };

export interface ResolvedImage {
	/** The content id, `sha256:…`: what a sandbox is compared by. */
	readonly imageId: string;
	/** The tag of a runtime's image, or the reference as it was given. */
	readonly reference: string;
	/** The runtime, where one was asked for. */
	readonly runtime?: string;
}

/** A runtime, and its image as far as there is one. */
export interface ImageInfo {
	readonly runtime: string;
	/** The tag that belongs to the content its folder has now. */
	readonly reference: string;
	readonly built: boolean;
	/** The content id, `sha256:…`; this and the following are left out while it is not built. */
	readonly imageId?: string;
	readonly sizeBytes?: number;
	readonly createdAtMs?: number;
}

export class Images {
	readonly #engine: Engine;
	readonly #readRecipes: () => ReadonlyMap<string, Recipe>;
	#known: ReadonlyMap<string, Recipe> | undefined;
	readonly #hashes = new ContentHashes();
	readonly #platform: PlatformCheck;
	readonly #facts: ImageFactsReader;
	readonly #making = new SharedWork<ImageRecord>();
	readonly #oneAtATime: OneAtATime;

	/** Asks the engine nothing. Throws `invalid_input` for a bad `custom`. */
	constructor({ engine, catalog, custom, cacheDirectory }: ImagesOptions) {
		this.#engine = engine;
		this.#readRecipes = () => readCatalog(catalog ?? shippedImages(), custom);
		if (custom) this.#known = this.#readRecipes();
		this.#platform = new PlatformCheck(engine, cacheDirectory);
		this.#facts = new ImageFactsReader(engine, cacheDirectory);
		this.#oneAtATime = new OneAtATime(cacheDirectory);
	}

	/** Read when first needed: most calls need none. */
	get #recipes(): ReadonlyMap<string, Recipe> {
		this.#known ??= this.#readRecipes();
		return this.#known;
	}

	/** The runtimes that can be asked for, the shipped ones first. */
	runtimes(): string[] {
		return [...this.#recipes.keys()];
	}

	/** Refuses, before anything is asked of the engine, an unknown runtime or a text that is no reference: `invalid_input`. */
	check(want: WantedImage): void {
		if ("runtime" in want) getRecipe(this.#recipes, want.runtime);
		else parseReference(want.image);
	}

	/** What {@link resolve} would give if nothing had to be built or pulled; `undefined` where something had to. */
	async find(want: WantedImage, options: CallOptions = {}): Promise<ResolvedImage | undefined> {
		const target = await this.#target(want, options);
		const image = await this.#engine.inspectImage(target.tag, options);
		return image && this.#accept(target, image, options);
	}

	/**
	 * The identity of what is wanted. A runtime's image is built when the engine lacks it, any other is pulled; callers that want
	 * the same at the same time share that work. What is there already costs one call.
	 *
	 * Throws `invalid_input` for an unknown runtime or a text that is no reference, before any call; `image_build_failed`;
	 * `image_unavailable`; `unsupported` for an image of another platform.
	 */
	async resolve(want: WantedImage, options: WaitOptions = {}): Promise<ResolvedImage> {
		const target = await this.#target(want, options);
		return this.#accept(target, await this.#ensure(target, options), options);
	}

	/** Builds the image of a runtime as its folder is now, unless the engine has it. Throws what {@link resolve} does. */
	async build(runtime: string, options: WaitOptions = {}): Promise<ImageInfo> {
		const target = await this.#target({ runtime }, options);
		const image = await this.#ensure(target, options);
		await this.#accept(target, image, options);
		return toInfo(runtime, target.tag, image);
	}

	/** What is inside an image. Read once for an image id, from a container that is never started. Throws `image_unavailable`. */
	async facts(imageId: string, options: CallOptions = {}): Promise<ImageFacts> {
		if (typeof imageId !== "string" || imageId === "") throw invalid("imageId", "an image id", imageId);
		throwIfAborted(options.signal);
		return this.#facts.read(imageId, options);
	}

	/** Every runtime and what the engine has of it. */
	async list(options: CallOptions = {}): Promise<ImageInfo[]> {
		const images = await this.#engine.listImages({ [RUNTIME_LABEL]: "" }, options);
		return Promise.all(
			[...this.#recipes.values()].map(async (recipe) => {
				const reference = toTag(recipe.runtime, await this.#hash(recipe, options));
				return toInfo(
					recipe.runtime,
					reference,
					images.find(({ tags }) => tags.includes(reference)),
				);
			}),
		);
	}

	/** What the engine is asked for, and how it is made where it is missing. Asks the engine nothing. */
	async #target(want: WantedImage, options: CallOptions): Promise<Target> {
		throwIfAborted(options.signal);
		const engine = this.#engine;
		if ("image" in want) {
			const reference = parseReference(want.image);
			return {
				given: want.image,
				tag: toText(reference),
				make: (work) => pullImage(engine, reference, want.image, work),
			};
		}
		const { runtime } = want;
		const recipe = getRecipe(this.#recipes, runtime);
		const hash = await this.#hash(recipe, options);
		const tag = toTag(runtime, hash);
		return { given: tag, tag, runtime, make: (work) => buildRuntime(engine, recipe, hash, work) };
	}

	async #ensure({ tag, make }: Target, options: WaitOptions): Promise<ImageRecord> {
		const find = (signal: AbortSignal | undefined): Promise<ImageRecord | undefined> =>
			this.#engine.inspectImage(tag, { signal });
		const image = await find(options.signal);
		if (image) return image;
		return this.#making.run(
			tag,
			(signal, onProgress) =>
				this.#oneAtATime.run(tag, { find, make: () => make({ signal, onProgress }) }, signal, onProgress),
			options,
		);
	}

	async #accept({ given, runtime }: Target, image: ImageRecord, options: CallOptions): Promise<ResolvedImage> {
		await this.#platform.require(image, given, { signal: options.signal });
		return { imageId: image.id, reference: given, ...(runtime === undefined ? {} : { runtime }) };
	}

	async #hash(recipe: Recipe, { signal }: CallOptions): Promise<string> {
		return this.#hashes.hash(recipe, signal).catch((error: unknown) => {
			throw toBuildError(error, `sandboxes-${recipe.runtime}`);
		});
	}
}

interface Target {
	/** As the caller knows it. */
	readonly given: string;
	/** As the engine knows it. */
	readonly tag: string;
	readonly runtime?: string;
	make(work: { readonly signal: AbortSignal; readonly onProgress: ProgressSink }): Promise<ImageRecord>;
}

function toInfo(runtime: string, reference: string, image: ImageRecord | undefined): ImageInfo {
	if (!image) return { runtime, reference, built: false };
	const { id: imageId, sizeBytes, createdAtMs } = image;
	return { runtime, reference, built: true, imageId, sizeBytes, createdAtMs };
}

/** Turns a runtime or an image reference into an image identity: found, built or pulled. Knows no sandbox. */
import type { CallOptions, Engine, ImageRecord } from "../engine/engine.js";
import { throwIfAborted } from "../primitives/abort.js";
import { invalid } from "../primitives/checks.js";
import { buildRuntime, RUNTIME_LABEL, toBuildError, toTag } from "./build-runtime.js";
import { type CustomRuntime, getRecipe, type Recipe, readCatalog, shippedImages } from "./catalog.js";
import { ContentHashes } from "./content-hash.js";
import { type ImageFacts, ImageFactsReader } from "./image-facts.js";
import { PlatformCheck } from "./platform.js";
import { pullImage } from "./pull-image.js";
import { parseReference, toText } from "./reference.js";
import { SharedWork, type WaitOptions } from "./shared-work.js";

export interface ImagesOptions {
	readonly engine: Engine;
	/** The directory of the shipped runtimes. Left out: the one of this package. */
	readonly catalog?: string | undefined;
	/** Runtimes of the user's own, by name. One with the name of a shipped runtime takes its place. */
	readonly custom?: Readonly<Record<string, CustomRuntime>> | undefined;
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
export interface RuntimeImage {
	readonly runtime: string;
	/** The tag that its folder has now. */
	readonly reference: string;
	readonly built: boolean;
	readonly imageId?: string;
	readonly sizeBytes?: number;
	readonly createdAtMs?: number;
}

export class Images {
	readonly #engine: Engine;
	readonly #recipes: ReadonlyMap<string, Recipe>;
	readonly #hashes = new ContentHashes();
	readonly #platform: PlatformCheck;
	readonly #facts: ImageFactsReader;
	readonly #making = new SharedWork<ImageRecord>();

	/** Reads the names of the runtimes, and asks the engine nothing. Throws `invalid_input` for a bad `custom`. */
	constructor({ engine, catalog, custom, cacheDirectory }: ImagesOptions) {
		this.#engine = engine;
		this.#recipes = readCatalog(catalog ?? shippedImages(), custom);
		this.#platform = new PlatformCheck(engine, cacheDirectory);
		this.#facts = new ImageFactsReader(engine, cacheDirectory);
	}

	/** The runtimes that can be asked for, the shipped ones first. */
	runtimes(): string[] {
		return [...this.#recipes.keys()];
	}

	/**
	 * The identity of what is wanted. A runtime's image is built when the engine lacks it, any other is pulled; callers that want
	 * the same at the same time share that work. What is there already costs one call.
	 *
	 * Throws `invalid_input` for an unknown runtime or a text that is no reference, before any call; `image_build_failed`;
	 * `image_unavailable`; `unsupported` for an image of another platform.
	 */
	async resolve(want: WantedImage, options: WaitOptions = {}): Promise<ResolvedImage> {
		if ("runtime" in want) return this.build(want.runtime, options);
		const reference = parseReference(want.image);
		throwIfAborted(options.signal);
		const text = toText(reference);
		const image =
			(await this.#engine.inspectImage(text, { signal: options.signal })) ??
			(await this.#making.run(
				text,
				(signal, onProgress) => pullImage(this.#engine, reference, want.image, { signal, onProgress }),
				options,
			));
		await this.#platform.require(image, want.image, { signal: options.signal });
		return { imageId: image.id, reference: want.image };
	}

	/** {@link resolve} for a runtime: its image as its folder is now, built when the engine lacks it. */
	async build(runtime: string, options: WaitOptions = {}): Promise<ResolvedImage> {
		const recipe = getRecipe(this.#recipes, runtime);
		throwIfAborted(options.signal);
		const hash = await this.#hash(recipe, options);
		const tag = toTag(runtime, hash);
		const image =
			(await this.#engine.inspectImage(tag, { signal: options.signal })) ??
			(await this.#making
				.run(tag, (signal, onProgress) => buildRuntime(this.#engine, recipe, hash, { signal, onProgress }), options)
				.catch((error: unknown) => {
					throw toBuildError(error, tag);
				}));
		await this.#platform.require(image, tag, { signal: options.signal });
		return { imageId: image.id, reference: tag, runtime };
	}

	/** What is inside an image. Read once for an image id, from a container that is never started. Throws `image_unavailable`. */
	async facts(imageId: string, options: CallOptions = {}): Promise<ImageFacts> {
		if (typeof imageId !== "string" || imageId === "") throw invalid("imageId", "an image id", imageId);
		throwIfAborted(options.signal);
		return this.#facts.read(imageId, options);
	}

	/** Every runtime and what the engine has of it, in one call. */
	async list(options: CallOptions = {}): Promise<RuntimeImage[]> {
		const images = await this.#engine.listImages({ [RUNTIME_LABEL]: "" }, options);
		return Promise.all(
			[...this.#recipes.values()].map(async (recipe) => {
				const reference = toTag(recipe.runtime, await this.#hash(recipe, options));
				const image = images.find(({ tags }) => tags.includes(reference));
				return {
					runtime: recipe.runtime,
					reference,
					built: image !== undefined,
					...(image && { imageId: image.id, sizeBytes: image.sizeBytes, createdAtMs: image.createdAtMs }),
				};
			}),
		);
	}

	async #hash(recipe: Recipe, { signal }: CallOptions): Promise<string> {
		return this.#hashes.hash(recipe, signal).catch((error: unknown) => {
			throw toBuildError(error, `sandboxes-${recipe.runtime}`);
		});
	}
}

/** Building a runtime's image from its folder. */
import { packDirectory } from "../archive/pack-directory.js";
import type { Engine, ImageRecord } from "../engine/engine.js";
import { isSandboxError, SandboxError } from "../primitives/errors.js";
import type { ProgressSink } from "../primitives/progress.js";
import type { Recipe } from "./catalog.js";

/** The label that names the runtime on an image we built, and the one that holds the hash of what it was built from. */
export const RUNTIME_LABEL = "sandboxes.runtime";
const CONTENT_LABEL = "sandboxes.content";

/** How many digits of the content hash are in a tag. */
const TAG_DIGITS = 16;

export function toTag(runtime: string, contentHash: string): string {
	return `sandboxes-${runtime}:${contentHash.slice(0, TAG_DIGITS)}`;
}

/** The image after it was built and tagged. Throws `image_build_failed`; nothing is tagged then. */
export async function buildRuntime(
	engine: Engine,
	recipe: Recipe,
	contentHash: string,
	{ signal, onProgress }: { readonly signal: AbortSignal; readonly onProgress: ProgressSink },
): Promise<ImageRecord> {
	const tag = toTag(recipe.runtime, contentHash);
	onProgress({ stage: "build", message: `building ${tag}` });
	try {
		const context = await packDirectory(recipe.context, { signal });
		// A client that sends a stream may wait for ever when the stream fails: the failure ends the call as well.
		const broken = new AbortController();
		context.on("error", (error) => broken.abort(error));
		try {
			const labels = { [RUNTIME_LABEL]: recipe.runtime, [CONTENT_LABEL]: contentHash };
			const spec = { context, tag, buildArgs: recipe.buildArgs, labels };
			await engine.buildImage(spec, { signal: AbortSignal.any([signal, broken.signal]), onProgress });
		} finally {
			context.destroy();
		}
	} catch (error) {
		throw toBuildError(error, tag);
	}
	const image = await engine.inspectImage(tag, { signal });
	if (!image) throw buildFailed(tag, "the image was built, and is gone again");
	return image;
}

/** The error of a build, whatever it was that failed: a context that cannot be read is a failed build too. */
export function toBuildError(error: unknown, reference: string): unknown {
	if (isSandboxError(error, "invalid_input") && error.details.field === "context")
		return buildFailed(reference, error.message, "context", error);
	if (isSandboxError(error, "image_build_failed") && /^(Step 1\/\d+ : )?FROM\b/i.test(error.details.step ?? "")) {
		const { message, details, cause } = error;
		const hint =
			"the base image is missing and cannot be pulled: scripts/ensure-base-images makes it, or give another as build argument BASE_IMAGE";
		return new SandboxError("image_build_failed", message, { details, hint, cause });
	}
	return error;
}

function buildFailed(
	reference: string,
	log: string,
	step?: string,
	cause?: unknown,
): SandboxError<"image_build_failed"> {
	return new SandboxError("image_build_failed", `building ${reference} failed: ${log}`, {
		details: { reference, log, ...(step === undefined ? {} : { step }) },
		cause,
	});
}

/** Fetching an image from its registry, with an end. */
import type { Engine, ImageRecord } from "../engine/engine.js";
import { isSandboxError, messageOf, SandboxError } from "../primitives/errors.js";
import type { ProgressSink } from "../primitives/progress.js";
import { type Reference, toText } from "./reference.js";

/** How long a registry may take to say anything at all. The engine room limits how long it may be silent later. */
const FIRST_WORD_MS = 30_000;

/**
 * The image after it was pulled. `given` is the reference as the caller wrote it, for messages.
 * Throws `image_unavailable` with the engine's reason, also when the registry stays silent.
 */
export async function pullImage(
	engine: Engine,
	reference: Reference,
	given: string,
	{ signal, onProgress }: { readonly signal: AbortSignal; readonly onProgress: ProgressSink },
	firstWordMs = FIRST_WORD_MS,
): Promise<ImageRecord> {
	if (reference.kind === "id") throw unavailable(given, "no image has this id, and an id cannot be pulled");
	const silence = new AbortController();
	const reason = `no word from the registry for ${firstWordMs / 1000} s`;
	const timer = setTimeout(() => silence.abort(unavailable(given, reason)), firstWordMs);
	const listen: ProgressSink = (progress) => {
		clearTimeout(timer);
		onProgress(progress);
	};
	try {
		onProgress({ stage: "pull", message: `pulling ${given}` });
		await engine.pullImage(toText(reference), {
			signal: AbortSignal.any([signal, silence.signal]),
			onProgress: listen,
		});
	} catch (error) {
		if (signal.aborted) throw signal.reason;
		if (isSandboxError(error, "image_unavailable")) throw unavailable(given, error.details.reason, error);
		if (isSandboxError(error, "engine_failed")) throw unavailable(given, messageOf(error), error);
		throw error;
	} finally {
		clearTimeout(timer);
	}
	const image = await engine.inspectImage(toText(reference), { signal });
	if (!image) throw unavailable(given, "it was pulled, and is gone again");
	return image;
}

function unavailable(reference: string, reason: string, cause?: unknown): SandboxError<"image_unavailable"> {
	return new SandboxError(
		"image_unavailable",
		`image ${reference} is not on the engine and cannot be pulled: ${reason}`,
		{
			details: { reference, reason },
			hint: "check the reference, and that the engine reaches its registry (`docker pull` shows the same)",
			cause,
		},
	);
}

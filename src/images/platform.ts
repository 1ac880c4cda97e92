/** Whether programs of an image can run on an engine at all. */
import { createHash } from "node:crypto";
import type { CallOptions, Engine, ImageRecord } from "../engine/engine.js";
import { SandboxError } from "../primitives/errors.js";
import { Memory } from "./memory.js";

type Platform = { readonly os: string; readonly architecture: string };

/** Processors that also run programs of another kind. */
const ALSO_RUNS: Readonly<Record<string, readonly string[]>> = { amd64: ["386"] };

/**
 * Compares an image's platform with the engine's. What the engine answered is kept by its address, in files too, so that this
 * costs no call as a rule; before an image is refused, the engine is asked again.
 */
export class PlatformCheck {
	readonly #engine: Engine;
	readonly #memory: Memory<Platform>;

	constructor(engine: Engine, cacheDirectory: string | undefined) {
		this.#engine = engine;
		this.#memory = new Memory<Platform>(cacheDirectory, toPlatform);
	}

	/** Throws `unsupported`, naming both platforms, when the image is made for another. */
	async require(image: ImageRecord, reference: string, options: CallOptions = {}): Promise<void> {
		const name = `platform-${createHash("sha256").update(this.#engine.address).digest("hex").slice(0, 16)}`;
		const kept = await this.#memory.find(name);
		if (kept && runsOn(image, kept)) return;
		const { os, architecture } = await this.#engine.info(options);
		if (kept?.os !== os || kept.architecture !== architecture) await this.#memory.keep(name, { os, architecture });
		if (runsOn(image, { os, architecture })) return;
		const what = `image ${reference} is made for ${image.os}/${image.architecture}, and the engine runs ${os}/${architecture}`;
		throw new SandboxError("unsupported", `${what}: no command of it could start`, {
			details: { what },
			hint: `use an image for ${os}/${architecture}, or build it on this engine`,
		});
	}
}

function runsOn(image: ImageRecord, engine: Platform): boolean {
	const sameOs = image.os === "" || image.os === engine.os;
	const runs = [engine.architecture, ...(ALSO_RUNS[engine.architecture] ?? [])];
	return sameOs && (image.architecture === "" || runs.includes(image.architecture));
}

function toPlatform(value: unknown): Platform | undefined {
	const { os, architecture } = (value as Partial<Record<keyof Platform, unknown>> | null) ?? {};
	return typeof os === "string" && typeof architecture === "string" ? { os, architecture } : undefined;
}

/** The engine's calls on images, apart from building and pulling. */

import { toImageId } from "./container-record.js";
import type { CallOptions, ImageRecord } from "./engine.js";
import { carries, type EngineApi, labelFilter, segment } from "./engine-api.js";
import {
	environmentOf,
	isJsonObject,
	type JsonObject,
	listOf,
	numberOf,
	objectOf,
	textMapOf,
	textOf,
	textsOf,
	timeOf,
} from "./json-fields.js";

/** Deleting an image's layers may take long on a busy disk. */
const REMOVE_TIMEOUT_MS = 120_000;
const INSPECTS_AT_ONCE = 4;

export class Images {
	readonly #api: EngineApi;

	constructor(api: EngineApi) {
		this.#api = api;
	}

	async inspect(reference: string, options: CallOptions = {}): Promise<ImageRecord | undefined> {
		const answer = await this.#api.call({
			what: `looking at image ${reference}`,
			subject: "image",
			method: "GET",
			path: `/images/${referencePath(reference)}/json`,
			accept: [404],
			signal: options.signal,
		});
		if (answer.status === 404) return undefined;
		const record = toImageRecord(objectOf(answer.data));
		if (record.id === "") throw this.#api.notAnEngine("its answer about an image has no id");
		return record;
	}

	async list(labels: Readonly<Record<string, string>>, options: CallOptions = {}): Promise<ImageRecord[]> {
		const { data } = await this.#api.call({
			what: "listing images",
			subject: "engine",
			method: "GET",
			path: "/images/json",
			query: { filters: labelFilter(labels, true) },
			signal: options.signal,
		});
		if (!Array.isArray(data)) throw this.#api.notAnEngine("its list of images is not a list");
		const ids = listOf(data)
			.filter(isJsonObject)
			.filter((line) => carries(textMapOf(line["Labels"]), labels, true))
			.map((line) => textOf(line["Id"]));
		// A line of the list tells neither platform nor environment.
		const records: (ImageRecord | undefined)[] = [];
		for (let from = 0; from < ids.length; from += INSPECTS_AT_ONCE) {
			const some = ids.slice(from, from + INSPECTS_AT_ONCE);
			records.push(...(await Promise.all(some.map((id) => this.inspect(id, options)))));
		}
		return records.filter((record) => record !== undefined);
	}

	async remove(reference: string, options: CallOptions = {}): Promise<boolean> {
		const answer = await this.#api.call({
			what: `removing image ${reference}`,
			subject: "image",
			method: "DELETE",
			path: `/images/${referencePath(reference)}`,
			accept: [404],
			timeoutMs: REMOVE_TIMEOUT_MS,
			signal: options.signal,
		});
		return answer.status !== 404;
	}
}

/** A reference's slashes are part of the path. */
function referencePath(reference: string): string {
	return reference
		.split("/")
		.map((part) => segment("image", part))
		.join("/");
}

function toImageRecord(data: JsonObject): ImageRecord {
	const config = objectOf(data["Config"]);
	return {
		id: toImageId(textOf(data["Id"])),
		tags: textsOf(data["RepoTags"]).filter((tag) => tag !== "<none>:<none>"),
		digests: textsOf(data["RepoDigests"]).filter((digest) => !digest.startsWith("<none>")),
		os: textOf(data["Os"]),
		architecture: textOf(data["Architecture"]),
		sizeBytes: numberOf(data["Size"]),
		createdAtMs: timeOf(data["Created"]),
		labels: textMapOf(config["Labels"]),
		env: environmentOf(config["Env"]),
		user: textOf(config["User"]),
	};
}

/** Looking into a container's file system from outside, in any state it is in, through the engine's archive calls. */
import { readSingleFile } from "../archive/read-single-file.js";
import type { CallOptions, PathStat } from "./engine.js";
import { type ApiAnswer, type EngineApi, meansNoContainer, segment } from "./engine-api.js";
import { engineFailed, refused, shortId } from "./engine-errors.js";
import type { ResponseHead } from "./http-response.js";
import { numberOf, objectOf, textOf } from "./json-fields.js";

/** Up to here a file counts as small. */
const MAX_FILE_BYTES = 16 * 1024 * 1024;
/** Room for the archive's headers, names over 100 bytes and padding. */
const MAX_ARCHIVE_BYTES = MAX_FILE_BYTES + 64 * 1024;
/** The engine says in which words of Go a file's kind is told: these bits are set for all that is no regular file. */
const NOT_REGULAR = 0x8f280000;
const STAT_HEADER = "x-docker-container-path-stat";
/** The engine gives a link's last target; a second link is one that was made meanwhile. */
const MAX_LINKS = 2;

interface KindOfPath extends PathStat {
	readonly regular: boolean;
}

export class ContainerFiles {
	readonly #api: EngineApi;

	constructor(api: EngineApi) {
		this.#api = api;
	}

	/** Links are followed by the engine, inside the container only. What is no regular file counts as not there. */
	async read(id: string, path: string, options: CallOptions = {}): Promise<Buffer | undefined> {
		let from = path;
		for (let links = 0; links <= MAX_LINKS; links++) {
			const stat = await this.#stat(id, from, options);
			if (stat?.linkTarget) from = stat.linkTarget;
			else return stat?.regular ? await this.#readRegular(id, from, options) : undefined;
		}
		return undefined;
	}

	async stat(id: string, path: string, options: CallOptions = {}): Promise<PathStat | undefined> {
		const stat = await this.#stat(id, path, options);
		return stat && { name: stat.name, size: stat.size, linkTarget: stat.linkTarget };
	}

	async #stat(id: string, path: string, options: CallOptions): Promise<KindOfPath | undefined> {
		const answer = await this.#archive("HEAD", id, path, options);
		if (answer.status === 200) {
			const stat = toPathStat(answer.headers);
			if (!stat) throw this.#api.notAnEngine("its answer about a path does not tell what is there");
			return stat;
		}
		// A refusal of HEAD has no body: only GET tells a missing container from a missing path.
		return explain(await this.#archive("GET", id, path, options), id, path);
	}

	async #readRegular(id: string, path: string, options: CallOptions): Promise<Buffer | undefined> {
		const answer = await this.#archive("GET", id, path, options, (head) => {
			const stat = head.status === 200 ? toPathStat(head.headers) : undefined;
			if (stat && (!stat.regular || stat.size > MAX_FILE_BYTES))
				throw engineFailed(
					`reading ${path} of container ${shortId(id)}`,
					200,
					"other",
					`it is no regular file of up to ${MAX_FILE_BYTES} bytes`,
				);
		});
		if (answer.status !== 200) return explain(answer, id, path);
		return await readSingleFile(answer.bytes);
	}

	async #archive(
		method: "GET" | "HEAD",
		id: string,
		path: string,
		options: CallOptions,
		onHead?: (head: ResponseHead) => void,
	): Promise<ApiAnswer & { readonly bytes: Buffer }> {
		return await this.#api.callForBytes({
			what: `reading ${path} of container ${shortId(id)}`,
			subject: "container",
			method,
			path: `/containers/${segment("container", id)}/archive`,
			query: { path },
			accept: [400, 404, 500],
			maxBodyBytes: MAX_ARCHIVE_BYTES,
			onHead,
			signal: options.signal,
		});
	}
}

/** `undefined` for a path that is not there; throws for all else. */
function explain(answer: ApiAnswer, id: string, path: string): undefined {
	const what = `looking at ${path} of container ${shortId(id)}`;
	if (meansNoContainer(answer)) throw engineFailed(what, 404, "no_such_container", answer.sentence);
	// Seen on API 1.41: a path that leads through a file is a 500.
	if (answer.status === 404 || /not a directory/i.test(answer.sentence)) return undefined;
	throw refused(what, answer.status, answer.sentence, "container");
}

function toPathStat(headers: ReadonlyMap<string, string>): KindOfPath | undefined {
	let stat: Readonly<Record<string, unknown>>;
	try {
		stat = objectOf(JSON.parse(Buffer.from(headers.get(STAT_HEADER) ?? "", "base64").toString("utf8")));
	} catch {
		return undefined;
	}
	return {
		name: textOf(stat["name"]),
		size: numberOf(stat["size"]),
		linkTarget: textOf(stat["linkTarget"]),
		regular: (numberOf(stat["mode"]) & NOT_REGULAR) === 0,
	};
}

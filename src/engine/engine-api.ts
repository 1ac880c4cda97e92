/**
 * Calls of the Docker Engine API: JSON in, JSON out, refusals as errors.
 *
 * Paths carry no version. The engine then answers in its own newest one, so no version of ours can be too old for
 * a new engine (those refuse old versions) and no round trip goes into negotiating. Every answer names the version
 * in `Api-Version`, which is checked against the floor.
 */
import { invalid } from "../primitives/checks.js";
import { SandboxError } from "../primitives/errors.js";
import { engineFailed, failureOf, refused, type Subject, unavailable } from "./engine-errors.js";
import type { HttpClient, HttpRequest, HttpResponse, UpgradedConnection } from "./http-client.js";
import { isJsonObject } from "./json-fields.js";

/** The oldest version whose words we know. */
export const MIN_API_VERSION = "1.41";

export interface ApiRequest extends Omit<HttpRequest, "target"> {
	/** What is attempted, as in `creating container web`; begins the message of a refusal. */
	readonly what: string;
	readonly subject: Subject;
	/** Encoded; its parts come from {@link segment}. */
	readonly path: string;
	readonly query?: Readonly<Record<string, string | number | undefined>> | undefined;
	/** Statuses from 300 on that are an answer here and no failure. */
	readonly accept?: readonly number[];
}

export interface ApiAnswer {
	readonly status: number;
	readonly headers: ReadonlyMap<string, string>;
	/** The parsed answer; `undefined` where it has no body. */
	readonly data: unknown;
	/** The engine's own sentence of a refusal that was accepted, else empty. */
	readonly sentence: string;
}

export class EngineApi {
	readonly address: string;
	readonly #client: HttpClient;

	constructor(client: HttpClient) {
		this.#client = client;
		this.address = client.address.address;
	}

	async call(request: ApiRequest): Promise<ApiAnswer> {
		return this.#judge(request, await this.#client.request({ ...request, target: target(request) }));
	}

	/** A call whose good answer is not JSON. */
	async callForBytes(request: ApiRequest): Promise<ApiAnswer & { readonly bytes: Buffer }> {
		const response = await this.#client.request({ ...request, target: target(request) });
		if (response.status < 300) {
			if (!response.headers.has("api-version")) throw this.notAnEngine("its answer has no Api-Version");
			return { ...response, data: undefined, sentence: "", bytes: response.body };
		}
		return { ...this.#judge(request, response), bytes: Buffer.alloc(0) };
	}

	/** A call that is answered with a stream in both directions. */
	async open(request: ApiRequest): Promise<UpgradedConnection> {
		const answer = await this.#client.upgrade({ ...request, target: target(request) });
		if ("socket" in answer) return answer;
		this.#judge(request, answer);
		throw engineFailed(request.what, answer.status, "protocol", "the engine did not open a stream");
	}

	/** The error for an answer whose form is not the engine's. */
	notAnEngine(detail: string): SandboxError<"engine_unavailable"> {
		return unavailable(this.address, "not_an_engine", detail);
	}

	#judge(request: ApiRequest, response: HttpResponse): ApiAnswer {
		const { status, headers } = response;
		const version = headers.get("api-version");
		const data = parseBody(response.body);
		const sentence = isJsonObject(data) && typeof data["message"] === "string" ? data["message"] : "";
		// A web server says 404 too: only an engine's 404 means that there is no such container.
		if (version === undefined && (status >= 300 ? sentence === "" && status !== 304 : data instanceof Unparsed))
			throw this.notAnEngine(`it answered HTTP ${status} in a form that is not an engine's${excerpt(response.body)}`);
		if (version !== undefined && isOlder(version, MIN_API_VERSION)) throw tooOld(this.address, version);
		if (status >= 300 && !request.accept?.includes(status))
			throw refused(request.what, status, sentence || text(data), request.subject);
		return { status, headers, data: data instanceof Unparsed ? undefined : data, sentence };
	}
}

/** One part of a path, encoded. What would change the path's meaning is refused with `invalid_input`. */
export function segment(field: string, value: string): string {
	if (value === "" || value === "." || value === "..") throw invalid(field, "a name or an id", value);
	return encodeURIComponent(value);
}

/** Labels as the engine's filter; an empty value matches any where `emptyMatchesAny`. */
export function labelFilter(labels: Readonly<Record<string, string>>, emptyMatchesAny = false): string {
	const label = Object.entries(labels).map(([key, value]) =>
		emptyMatchesAny && value === "" ? key : `${key}=${value}`,
	);
	return JSON.stringify({ label });
}

/** Whether `labels` has each of the wanted ones. The engine's filter alone would cut a key with `=` in it wrongly. */
export function carries(
	labels: Readonly<Record<string, string>>,
	wanted: Readonly<Record<string, string>>,
	emptyMatchesAny = false,
): boolean {
	return Object.entries(wanted).every(
		([key, value]) => Object.hasOwn(labels, key) && (labels[key] === value || (emptyMatchesAny && value === "")),
	);
}

/** Whether an accepted 404 speaks of a missing container, as against something missing in it. */
export function meansNoContainer(answer: ApiAnswer): boolean {
	return answer.status === 404 && failureOf(404, answer.sentence, "engine") === "no_such_container";
}

class Unparsed {
	readonly text: string;
	constructor(text: string) {
		this.text = text;
	}
}

function parseBody(body: Buffer): unknown {
	if (body.length === 0) return undefined;
	const text = body.toString("utf8");
	try {
		return JSON.parse(text);
	} catch {
		return new Unparsed(text);
	}
}

function text(data: unknown): string {
	return data instanceof Unparsed ? data.text.slice(0, 2000) : "";
}

function excerpt(body: Buffer): string {
	const line = body.toString("utf8", 0, 200).replace(/\s+/g, " ").trim().slice(0, 80);
	return line === "" ? "" : `: ${JSON.stringify(line)}`;
}

function target(request: ApiRequest): string {
	const query = new URLSearchParams();
	for (const [key, value] of Object.entries(request.query ?? {})) {
		if (value !== undefined) query.set(key, String(value));
	}
	const text = query.toString();
	return text === "" ? request.path : `${request.path}?${text}`;
}

function isOlder(version: string, floor: string): boolean {
	const [major = 0, minor = 0] = version.split(".").map(Number);
	const [floorMajor = 0, floorMinor = 0] = floor.split(".").map(Number);
	return major < floorMajor || (major === floorMajor && minor < floorMinor);
}

function tooOld(address: string, version: string): SandboxError<"unsupported"> {
	return new SandboxError(
		"unsupported",
		`the engine at ${address} speaks API ${version}, older than ${MIN_API_VERSION}`,
		{
			details: { what: `engine API ${version}` },
			hint: "use Docker 20.10 or later",
		},
	);
}

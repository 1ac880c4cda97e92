/** The engine's calls on containers. */
import { sleep } from "../primitives/abort.js";
import { toContainerConfig, toGraceSeconds } from "./container-config.js";
import { toContainerRecord, toContainerSummary } from "./container-record.js";
import type { CallOptions, ContainerRecord, ContainerSpec, ContainerSummary } from "./engine.js";
import { type ApiAnswer, carries, type EngineApi, labelFilter, segment } from "./engine-api.js";
import { engineFailed, failureOf, refused, shortId } from "./engine-errors.js";
import { isJsonObject, listOf, objectOf, textOf, textsOf } from "./json-fields.js";

/** Work that the engine may need long for on a busy machine. */
const LONG_WORK_MS = 120_000;
const REMOVAL_WAIT_MS = 60_000;

export class Containers {
	readonly #api: EngineApi;

	constructor(api: EngineApi) {
		this.#api = api;
	}

	async create(spec: ContainerSpec, options: CallOptions = {}): Promise<{ id: string; warnings: readonly string[] }> {
		const { data } = await this.#api.call({
			what: `creating container ${spec.name}`,
			subject: "image",
			method: "POST",
			path: "/containers/create",
			query: { name: spec.name },
			body: toContainerConfig(spec),
			timeoutMs: LONG_WORK_MS,
			signal: options.signal,
		});
		const answer = objectOf(data);
		const id = textOf(answer["Id"]);
		if (id === "") throw this.#api.notAnEngine("it made a container and did not tell its id");
		return { id, warnings: textsOf(answer["Warnings"]) };
	}

	async inspect(idOrName: string, options: CallOptions = {}): Promise<ContainerRecord | undefined> {
		const answer = await this.#api.call({
			what: `looking at container ${shortId(idOrName)}`,
			subject: "container",
			method: "GET",
			path: `/containers/${segment("container", idOrName)}/json`,
			accept: [404],
			signal: options.signal,
		});
		if (answer.status === 404) return undefined;
		const record = toContainerRecord(objectOf(answer.data));
		if (record.id === "") throw this.#api.notAnEngine("its answer about a container has no id");
		// The engine also takes the beginning of an id, which may be that of a stranger whose id begins like our name.
		return record.id === idOrName || record.name === idOrName ? record : undefined;
	}

	async list(labels: Readonly<Record<string, string>>, options: CallOptions = {}): Promise<ContainerSummary[]> {
		const { data } = await this.#api.call({
			what: "listing containers",
			subject: "engine",
			method: "GET",
			path: "/containers/json",
			query: { all: 1, filters: labelFilter(labels) },
			signal: options.signal,
		});
		if (!Array.isArray(data)) throw this.#api.notAnEngine("its list of containers is not a list");
		return listOf(data)
			.filter(isJsonObject)
			.map(toContainerSummary)
			.filter((summary) => carries(summary.labels, labels));
	}

	async start(id: string, options: CallOptions = {}): Promise<boolean> {
		const answer = await this.#change(id, "start", "starting", LONG_WORK_MS, options);
		return answer.status !== 304;
	}

	async stop(id: string, graceMs: number, options: CallOptions = {}): Promise<boolean> {
		const t = toGraceSeconds(graceMs);
		const answer = await this.#change(id, "stop", "stopping", t * 1000 + LONG_WORK_MS, options, { t });
		return answer.status !== 304;
	}

	async pause(id: string, options: CallOptions = {}): Promise<void> {
		const answer = await this.#change(id, "pause", "pausing", LONG_WORK_MS, options, undefined, [304, 409]);
		if (answer.status === 409 && !/already paused/i.test(answer.sentence))
			throw refused(`pausing container ${shortId(id)}`, 409, answer.sentence, "container");
	}

	async unpause(id: string, options: CallOptions = {}): Promise<void> {
		// Seen on API 1.41: that it is not paused is a 500.
		const answer = await this.#change(id, "unpause", "unpausing", LONG_WORK_MS, options, undefined, [304, 409, 500]);
		if (answer.status < 400) return;
		const what = `unpausing container ${shortId(id)}`;
		if (!/not paused/i.test(answer.sentence)) throw refused(what, answer.status, answer.sentence, "container");
		const state = (await this.inspect(id, options))?.state;
		if (state !== "running")
			throw engineFailed(what, answer.status, state ? "not_running" : "no_such_container", answer.sentence);
	}

	async rename(id: string, name: string, options: CallOptions = {}): Promise<void> {
		await this.#change(id, "rename", "renaming", LONG_WORK_MS, options, { name });
	}

	async remove(id: string, options: CallOptions = {}): Promise<boolean> {
		const deadline = Date.now() + REMOVAL_WAIT_MS;
		for (let waited = false; ; waited = true) {
			const answer = await this.#api.call({
				what: `removing container ${shortId(id)}`,
				subject: "container",
				method: "DELETE",
				path: `/containers/${segment("container", id)}`,
				query: { force: 1, v: 1 },
				accept: [404, 409],
				timeoutMs: LONG_WORK_MS,
				signal: options.signal,
			});
			if (answer.status === 404) return waited;
			if (answer.status !== 409) return true;
			const failure = failureOf(409, answer.sentence, "container");
			if (failure !== "removal_in_progress" || Date.now() > deadline)
				throw engineFailed(`removing container ${shortId(id)}`, 409, failure, answer.sentence);
			await this.#whileRemoving(id, deadline, options);
		}
	}

	/** Until somebody else's removal has ended, whether well or not. */
	async #whileRemoving(id: string, deadline: number, options: CallOptions): Promise<void> {
		for (let delayMs = 10; Date.now() < deadline; delayMs = Math.min(delayMs * 2, 250)) {
			await sleep(delayMs, options.signal);
			const record = await this.inspect(id, options);
			if (record?.state !== "removing") return;
		}
	}

	#change(
		id: string,
		action: string,
		doing: string,
		timeoutMs: number,
		options: CallOptions,
		query?: Readonly<Record<string, string | number>>,
		accept: readonly number[] = [304],
	): Promise<ApiAnswer> {
		return this.#api.call({
			what: `${doing} container ${shortId(id)}`,
			subject: "container",
			method: "POST",
			path: `/containers/${segment("container", id)}/${action}`,
			query,
			accept,
			timeoutMs,
			signal: options.signal,
		});
	}
}

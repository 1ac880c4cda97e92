/** The engine's calls on networks. */
import type { CallOptions, NetworkRecord, NetworkSpec } from "./engine.js";
import { carries, type EngineApi, labelFilter, segment } from "./engine-api.js";
import { isJsonObject, type JsonObject, listOf, objectOf, textMapOf, textOf, timeOf } from "./json-fields.js";

const CHANGE_TIMEOUT_MS = 60_000;

export class Networks {
	readonly #api: EngineApi;

	constructor(api: EngineApi) {
		this.#api = api;
	}

	async create(spec: NetworkSpec, options: CallOptions = {}): Promise<string> {
		const { data } = await this.#api.call({
			what: `creating network ${spec.name}`,
			subject: "network",
			method: "POST",
			path: "/networks/create",
			body: {
				Name: spec.name,
				// Engines before API 1.44 make a second network of the same name otherwise.
				CheckDuplicate: true,
				Driver: "bridge",
				Internal: spec.internal,
				Labels: spec.labels,
				Options: { "com.docker.network.bridge.enable_icc": String(spec.interContainer) },
			},
			timeoutMs: CHANGE_TIMEOUT_MS,
			signal: options.signal,
		});
		const id = textOf(objectOf(data)["Id"]);
		if (id === "") throw this.#api.notAnEngine("it made a network and did not tell its id");
		return id;
	}

	/** By id or by exact name; of several with one name (older engines make them in a race) the oldest. */
	async inspect(idOrName: string, options: CallOptions = {}): Promise<NetworkRecord | undefined> {
		const answer = await this.#api.call({
			what: `looking at network ${idOrName}`,
			subject: "network",
			method: "GET",
			path: `/networks/${segment("network", idOrName)}`,
			accept: [400, 404],
			signal: options.signal,
		});
		if (answer.status === 404) return undefined;
		if (answer.status === 400) return await this.#oldestNamed(idOrName, options);
		const record = toNetworkRecord(objectOf(answer.data));
		if (record.id === "") throw this.#api.notAnEngine("its answer about a network has no id");
		return record.id === idOrName || record.name === idOrName ? record : undefined;
	}

	async list(labels: Readonly<Record<string, string>>, options: CallOptions = {}): Promise<NetworkRecord[]> {
		const records = await this.#query(labelFilter(labels), options);
		return records.filter((record) => carries(record.labels, labels));
	}

	async remove(id: string, options: CallOptions = {}): Promise<boolean> {
		const answer = await this.#api.call({
			what: `removing network ${id}`,
			subject: "network",
			method: "DELETE",
			path: `/networks/${segment("network", id)}`,
			accept: [404],
			timeoutMs: CHANGE_TIMEOUT_MS,
			signal: options.signal,
		});
		return answer.status !== 404;
	}

	async #oldestNamed(name: string, options: CallOptions): Promise<NetworkRecord | undefined> {
		const records = await this.#query(JSON.stringify({ name: [name] }), options);
		return records
			.filter((record) => record.name === name)
			.sort((a, b) => createdAtMs(a) - createdAtMs(b) || a.id.localeCompare(b.id))[0];
	}

	async #query(filters: string, options: CallOptions): Promise<NetworkRecord[]> {
		const { data } = await this.#api.call({
			what: "listing networks",
			subject: "engine",
			method: "GET",
			path: "/networks",
			query: { filters },
			signal: options.signal,
		});
		if (!Array.isArray(data)) throw this.#api.notAnEngine("its list of networks is not a list");
		return listOf(data).filter(isJsonObject).map(toNetworkRecord);
	}
}

function toNetworkRecord(data: JsonObject): NetworkRecord {
	return { id: textOf(data["Id"]), name: textOf(data["Name"]), labels: textMapOf(data["Labels"]), raw: data };
}

function createdAtMs(record: NetworkRecord): number {
	return timeOf(objectOf(record.raw)["Created"]);
}

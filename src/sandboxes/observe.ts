/** Looks at the engine once and writes down what it sees, as plain records for the decision. */
import type { ContainerRecord, ContainerState, ContainerSummary, Engine } from "../engine/engine.js";
import type { ForeignContainer, Observed, ObservedContainer } from "./decide.js";
import { type Fleet, isOurs, LABEL, parseLabels, sandboxLabels } from "./labels.js";
import { toContainerName } from "./names.js";

/** What the name alone tells, in one call: enough when the sandbox runs and serves. */
export async function observeByName(
	engine: Engine,
	fleet: Fleet,
	name: string,
	signal?: AbortSignal,
): Promise<{ observed: Observed; record: ContainerRecord | undefined }> {
	const record = await engine.inspectContainer(toContainerName(fleet.prefix, name), { signal });
	if (!record) return { observed: { ours: [], foreign: undefined }, record: undefined };
	const ours = isOurs(record.labels, fleet) && record.labels[LABEL.name] === name;
	return ours
		? { observed: { ours: [toObserved(record)], foreign: undefined }, record }
		: { observed: { ours: [], foreign: toForeign(record) }, record: undefined };
}

/** All that answers to the name: by labels, whatever it is called, and by the name itself, whosever it is. */
export async function observeAll(engine: Engine, fleet: Fleet, name: string, signal?: AbortSignal): Promise<Observed> {
	const [listed, byName] = await Promise.all([
		engine.listContainers(sandboxLabels(fleet, name), { signal }),
		observeByName(engine, fleet, name, signal),
	]);
	const ours = new Map(listed.map((summary) => [summary.id, toObserved(summary)]));
	for (const container of byName.observed.ours) ours.set(container.id, container);
	return { ours: [...ours.values()], foreign: byName.observed.foreign };
}

/** One container of ours, from an inspection or from a line of a list. */
export function toObserved(container: ContainerRecord | ContainerSummary): ObservedContainer {
	const state: ContainerState = container.state;
	return {
		id: container.id,
		containerName: container.name,
		state,
		createdAtMs: container.createdAtMs,
		recorded: parseLabels(container.labels),
	};
}

function toForeign(record: ContainerRecord): ForeignContainer {
	return { id: record.id, containerName: record.name, owner: describeOwner(record.labels) };
}

function describeOwner(labels: Readonly<Record<string, string>>): string {
	const prefix = labels[LABEL.prefix];
	const name = labels[LABEL.name];
	if (labels[LABEL.root] === undefined || prefix === undefined) return "a container that was not made here";
	return `sandbox "${name ?? "?"}" of prefix "${prefix}"${labels[LABEL.root] ? " of a root" : ""} other than this one`;
}

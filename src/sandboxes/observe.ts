/** Looks at the engine once and writes down what it sees, as plain records for the decision. */
import type { ContainerRecord, ContainerSummary } from "../engine/engine.js";
import type { Context } from "./context.js";
import type { ForeignContainer, Observed, ObservedContainer } from "./decide.js";
import { isOurs, LABEL, parseLabels, sandboxLabels } from "./labels.js";
import { toContainerName } from "./names.js";

/** What the name alone tells, in one call: enough when the sandbox runs and serves. */
export async function observeByName(
	context: Context,
	name: string,
	signal?: AbortSignal,
): Promise<{ observed: Observed; record: ContainerRecord | undefined }> {
	const { engine, fleet } = context;
	const record = await engine.inspectContainer(toContainerName(fleet.prefix, name), { signal });
	if (!record) return { observed: { ours: [], foreign: undefined }, record: undefined };
	const ours = isOurs(record.labels, fleet) && record.labels[LABEL.name] === name;
	return ours
		? { observed: { ours: [await toObserved(context, record)], foreign: undefined }, record }
		: { observed: { ours: [], foreign: toForeign(context, record) }, record: undefined };
}

/** All that answers to the name: by labels, whatever it is called, and by the name itself, whosever it is. */
export async function observeAll(context: Context, name: string, signal?: AbortSignal): Promise<Observed> {
	const [listed, byName] = await Promise.all([
		context.engine.listContainers(sandboxLabels(context.fleet, name), { signal }),
		observeByName(context, name, signal),
	]);
	const ours = new Map<string, ObservedContainer>();
	for (const summary of listed) ours.set(summary.id, await toObserved(context, summary));
	for (const container of byName.observed.ours) ours.set(container.id, container);
	return { ours: [...ours.values()], foreign: byName.observed.foreign };
}

/** One container of ours, from an inspection or from a line of a list. */
async function toObserved(context: Context, container: ContainerRecord | ContainerSummary): Promise<ObservedContainer> {
	const recorded = parseLabels(container.labels);
	return {
		id: container.id,
		containerName: container.name,
		state: container.state,
		createdAtMs: container.createdAtMs,
		recorded,
		workspaceThere: recorded.ok && (await context.workspaces.exists(recorded.recorded.workspaceId)),
	};
}

function toForeign(context: Context, record: ContainerRecord): ForeignContainer {
	const { labels } = record;
	const prefix = labels[LABEL.prefix];
	const root = labels[LABEL.root];
	if (root === undefined || prefix === undefined) {
		return { id: record.id, containerName: record.name, owner: "a container that was not made here" };
	}
	const where = root === context.fleet.rootId ? "" : " of another root";
	const owner = `sandbox "${labels[LABEL.name] ?? "?"}" of prefix "${prefix}"${where}`;
	return { id: record.id, containerName: record.name, owner };
}

/** Opens a root: makes it if it is new, and rebuilds its ledger from the engine's labels and the directories if it is damaged. */
import type { Engine } from "../engine/engine.js";
import type { Commands } from "../exec/commands.js";
import type { Images } from "../images/images.js";
import { Ledger } from "../ledger/ledger.js";
import { parseRow, rowKey, type SandboxRow } from "../ledger/row.js";
import { NamedLocks } from "../locks/named-locks.js";
import type { Clock } from "../primitives/clock.js";
import { Root } from "../workspace/root.js";
import { Workspaces } from "../workspace/workspaces.js";
import type { Context } from "./context.js";
import type { EventSink } from "./events.js";
import { LABEL, parseLabels } from "./labels.js";
import { toRowFields } from "./settle.js";

export interface OpenOptions {
	readonly rootPath: string;
	readonly prefix: string;
	readonly engine: Engine;
	readonly images: Images;
	readonly commands: Commands;
	readonly clock: Clock;
	readonly emit: EventSink;
}

export async function openContext(options: OpenOptions): Promise<Context> {
	const { engine, images, commands, clock, emit, prefix } = options;
	const root = await Root.open(options.rootPath);
	if (root.origin === "renewed") emit({ type: "root_renewed", root: root.path });
	const workspaces = new Workspaces(root);
	const ledger = new Ledger<SandboxRow>({
		directory: root.path,
		parseRow,
		rebuild: () => rebuildRows(engine, root, workspaces, clock),
		onDamage: (damage) => emit({ type: "ledger_rebuilt", setAside: damage.setAside, problem: damage.problem }),
	});
	let engineId: Promise<string> | undefined;
	return {
		engine,
		root,
		fleet: { rootId: root.id, prefix },
		ledger,
		locks: new NamedLocks(`${root.path}/locks`),
		workspaces,
		images,
		commands,
		clock,
		emit,
		engineId: () => {
			engineId ??= engine.info().then(
				(info) => info.id,
				(error: unknown) => {
					engineId = undefined;
					throw error;
				},
			);
			return engineId;
		},
	};
}

/**
 * What a lost ledger said, as far as others remember it: containers by their labels, workspaces by the links to them.
 * Environment variables are in the ledger alone and are lost with it.
 */
async function rebuildRows(
	engine: Engine,
	root: Root,
	workspaces: Workspaces,
	clock: Clock,
): Promise<{ rows: ReadonlyMap<string, SandboxRow>; epochFloor: number }> {
	const rows = new Map<string, SandboxRow>();
	let epochFloor = 0;
	const links = await workspaces.links();
	if (links.length === 0 && (await workspaces.ids()).length === 0) return { rows, epochFloor };
	const at = clock.nowMs();
	for (const link of links) {
		if (!(await workspaces.exists(link.id))) continue;
		rows.set(rowKey(link.prefix, link.name), {
			kind: "sandbox",
			prefix: link.prefix,
			name: link.name,
			state: "reserved",
			operationKey: link.id,
			epoch: 0,
			workspaceId: link.id,
			env: {},
			labels: {},
			at,
		});
	}
	for (const container of await engine.listContainers({ [LABEL.root]: root.id, [LABEL.role]: "sandbox" })) {
		const prefix = container.labels[LABEL.prefix];
		const name = container.labels[LABEL.name];
		const parsed = parseLabels(container.labels);
		if (prefix === undefined || name === undefined || !parsed.ok) continue;
		const { recorded } = parsed;
		epochFloor = Math.max(epochFloor, recorded.epoch);
		const key = rowKey(prefix, name);
		if ((rows.get(key)?.epoch ?? -1) > recorded.epoch) continue;
		rows.set(key, {
			kind: "sandbox",
			prefix,
			name,
			state: "ready",
			operationKey: recorded.operationKey,
			epoch: recorded.epoch,
			containerId: container.id,
			workspaceId: recorded.workspaceId,
			env: {},
			labels: recorded.labels,
			at,
			...toRowFields(recorded),
		});
	}
	return { rows, epochFloor };
}

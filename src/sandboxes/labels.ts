/** Labels: what stands on a container, written when it is made and read back when it is observed. */
import { canonicalJson } from "../primitives/canonical-json.js";
import type { Shape } from "./shape.js";
import { parseShape } from "./shape-json.js";

/** The version of the labels that this code writes and the latest it can read. */
export const LABEL_VERSION = 1;

export const LABEL = {
	version: "sandboxes.v",
	root: "sandboxes.root",
	prefix: "sandboxes.prefix",
	name: "sandboxes.name",
	role: "sandboxes.role",
	operation: "sandboxes.op",
	epoch: "sandboxes.epoch",
	workspace: "sandboxes.workspace",
	createdAt: "sandboxes.created",
	image: "sandboxes.image",
	libc: "sandboxes.libc",
	shape: "sandboxes.shape",
	stopGrace: "sandboxes.stop-grace",
	userLabels: "sandboxes.labels",
} as const;

export type Role = "sandbox" | "helper" | "network";

/** Which fleet something belongs to: ours is what carries both. */
export interface Fleet {
	readonly rootId: string;
	readonly prefix: string;
}

/** What is recorded on the container of a sandbox. */
export interface Recorded {
	readonly operationKey: string;
	readonly epoch: number;
	readonly workspaceId: string;
	readonly createdAtMs: number;
	/** The reference by which the image was asked for. */
	readonly image: string;
	readonly libc: string;
	readonly stopGraceMs: number;
	readonly labels: Readonly<Record<string, string>>;
	readonly shape: Shape;
}

export function fleetLabels(fleet: Fleet, role: Role): Record<string, string> {
	return { [LABEL.root]: fleet.rootId, [LABEL.prefix]: fleet.prefix, [LABEL.role]: role };
}

/** The labels by which all containers of one sandbox are found. */
export function sandboxLabels(fleet: Fleet, name: string): Record<string, string> {
	return { ...fleetLabels(fleet, "sandbox"), [LABEL.name]: name };
}

export function toLabels(fleet: Fleet, name: string, recorded: Recorded): Record<string, string> {
	return {
		...sandboxLabels(fleet, name),
		[LABEL.version]: String(LABEL_VERSION),
		[LABEL.operation]: recorded.operationKey,
		[LABEL.epoch]: String(recorded.epoch),
		[LABEL.workspace]: recorded.workspaceId,
		[LABEL.createdAt]: String(recorded.createdAtMs),
		[LABEL.image]: recorded.image,
		[LABEL.libc]: recorded.libc,
		[LABEL.stopGrace]: String(recorded.stopGraceMs),
		[LABEL.userLabels]: canonicalJson(recorded.labels),
		[LABEL.shape]: canonicalJson({ ...recorded.shape } as never),
	};
}

/** Whether labels say that a container is a sandbox of this fleet. */
export function isOurs(labels: Readonly<Record<string, string>>, fleet: Fleet): boolean {
	return (
		labels[LABEL.root] === fleet.rootId && labels[LABEL.prefix] === fleet.prefix && labels[LABEL.role] === "sandbox"
	);
}

const OPERATION_KEY = /^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/;
/** It becomes part of a path. */
const WORKSPACE_ID = /^[0-9a-f]{24}$/;

/** What labels record, or in words what is wrong with them. Never throws. */
export function parseLabels(
	labels: Readonly<Record<string, string>>,
): { ok: true; recorded: Recorded } | { ok: false; problem: string } {
	const version = Number(labels[LABEL.version]);
	if (!Number.isInteger(version) || version < 1) return { ok: false, problem: "no readable label version" };
	if (version > LABEL_VERSION) return { ok: false, problem: `labels of the later version ${version}` };
	const operationKey = labels[LABEL.operation];
	const workspaceId = labels[LABEL.workspace];
	const epoch = wholeNumber(labels[LABEL.epoch]);
	const createdAtMs = wholeNumber(labels[LABEL.createdAt]);
	const stopGraceMs = wholeNumber(labels[LABEL.stopGrace]);
	const shape = parseShape(parseJson(labels[LABEL.shape]));
	const userLabels = parseStrings(parseJson(labels[LABEL.userLabels]));
	if (!operationKey || !OPERATION_KEY.test(operationKey) || epoch === undefined)
		return { ok: false, problem: "no readable operation" };
	if (!workspaceId || !WORKSPACE_ID.test(workspaceId)) return { ok: false, problem: "no readable workspace" };
	if (createdAtMs === undefined || stopGraceMs === undefined) return { ok: false, problem: "no readable times" };
	if (!shape) return { ok: false, problem: "no readable shape" };
	if (!userLabels) return { ok: false, problem: "no readable user labels" };
	return {
		ok: true,
		recorded: {
			operationKey,
			epoch,
			workspaceId,
			createdAtMs,
			image: labels[LABEL.image] ?? shape.imageId,
			libc: labels[LABEL.libc] ?? "unknown",
			stopGraceMs,
			labels: userLabels,
			shape,
		},
	};
}

function wholeNumber(text: string | undefined): number | undefined {
	if (text === undefined || !/^\d{1,16}$/.test(text)) return undefined;
	return Number(text);
}

function parseJson(text: string | undefined): unknown {
	if (text === undefined) return undefined;
	try {
		return JSON.parse(text);
	} catch {
		return undefined;
	}
}

function parseStrings(value: unknown): Record<string, string> | undefined {
	if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
	const entries = Object.entries(value);
	if (!entries.every((entry): entry is [string, string] => typeof entry[1] === "string")) return undefined;
	return Object.fromEntries(entries);
}

/**
 * The decision: what to do with a name, given what was asked, what was observed and the time.
 * Pure: no engine, no files, no clock. Total over everything that can be observed.
 */
import type { ContainerState } from "../engine/engine.js";
import type { Recorded } from "./labels.js";
import type { Reason } from "./reasons.js";
import { mismatches, type Shape } from "./shape.js";

/** A container of this fleet under the asked name. */
export interface ObservedContainer {
	readonly id: string;
	/** Its name on the engine. */
	readonly containerName: string;
	readonly state: ContainerState;
	/** The engine's own time of creation. */
	readonly createdAtMs: number;
	readonly recorded:
		| { readonly ok: true; readonly recorded: Recorded }
		| { readonly ok: false; readonly problem: string };
	/** Whether the directory that it mounts as workspace is still on the host. */
	readonly workspaceThere: boolean;
}

/** A container that holds the name on the engine and is not of this fleet. */
export interface ForeignContainer {
	readonly id: string;
	readonly containerName: string;
	/** Whose it seems to be, in words. */
	readonly owner: string;
}

export interface Observed {
	readonly ours: readonly ObservedContainer[];
	readonly foreign: ForeignContainer | undefined;
}

/** What the decision looks at of a request. */
export interface Wanted {
	readonly shape: Shape;
	readonly replace: boolean;
}

export type Action = "create" | "serve" | "start" | "rebuild" | "replace" | "refuse";

export interface Decision {
	readonly action: Action;
	/** Empty exactly for `serve` and `start`. */
	readonly reasons: readonly Reason[];
	/** The container the action is about; absent for `create`, and for `refuse`. */
	readonly container: ObservedContainer | undefined;
	/** Other containers of ours under the same name: older ones, superseded by `container`. */
	readonly superseded: readonly ObservedContainer[];
	/** What stands in the way of a `refuse`. */
	readonly foreign: ForeignContainer | undefined;
}

/** The states from which a container can be brought to run as it is. */
const STARTABLE: ReadonlySet<ContainerState> = new Set(["created", "exited", "paused"]);

export function decide(wanted: Wanted, observed: Observed, nowMs: number): Decision {
	const [container, ...superseded] = [...observed.ours].sort(newestFirst);
	const about = { container, superseded, foreign: observed.foreign };
	if (observed.foreign) return { ...about, action: "refuse", reasons: [{ kind: "state", state: "not ours" }] };
	if (wanted.replace) return { ...about, action: "replace", reasons: [{ kind: "replace" }] };
	if (!container) return { ...about, action: "create", reasons: [{ kind: "absent" }] };
	const reasons = reasonsAgainst(container, wanted.shape, nowMs);
	if (reasons.length > 0) return { ...about, action: "rebuild", reasons };
	return { ...about, action: container.state === "running" ? "serve" : "start", reasons };
}

/** What tells which of two containers is the newer. */
export type Datable = Pick<ObservedContainer, "id" | "createdAtMs" | "recorded">;

/** The newest by creation, then by id: the same choice whatever the order of the observation. */
export function newestFirst(a: Datable, b: Datable): number {
	return createdAt(b) - createdAt(a) || (a.id < b.id ? 1 : a.id > b.id ? -1 : 0);
}

function createdAt(container: Datable): number {
	return container.recorded.ok ? container.recorded.recorded.createdAtMs : container.createdAtMs;
}

function reasonsAgainst(container: ObservedContainer, want: Shape, nowMs: number): Reason[] {
	const reasons: Reason[] = [];
	if (container.state !== "running" && !STARTABLE.has(container.state))
		reasons.push({ kind: "state", state: container.state });
	if (!container.recorded.ok) return [...reasons, { kind: "labels", problem: container.recorded.problem }];
	if (!container.workspaceThere) reasons.push({ kind: "workspace" });
	const have = container.recorded.recorded.shape;
	for (const mismatch of mismatches(have, want)) reasons.push({ kind: "shape", ...mismatch });
	const ageMs = Math.max(0, nowMs - container.recorded.recorded.createdAtMs);
	const limits = [have.maxLifetimeMs, want.maxLifetimeMs].filter((limit) => limit > 0);
	const limitMs = Math.min(...limits);
	if (limits.length > 0 && ageMs >= limitMs) reasons.push({ kind: "expired", ageMs, limitMs });
	return reasons;
}

/** Why a decision is what it is: a record for programs, a sentence for people. */
import { formatDuration, formatSize } from "../primitives/units.js";
import type { Mismatch, MountShape, PortShape, Shape } from "./shape.js";

export type Reason =
	/** Nothing is there. */
	| { readonly kind: "absent" }
	/** A field of what is there does not serve. */
	| ({ readonly kind: "shape" } & Mismatch)
	/** It is older than a lifetime, its own or the one asked for. */
	| { readonly kind: "expired"; readonly ageMs: number; readonly limitMs: number }
	/** The engine is in a state with it from which it cannot be used. */
	| { readonly kind: "state"; readonly state: string }
	/** What it records cannot be read. */
	| { readonly kind: "labels"; readonly problem: string }
	/** Its workspace directory is gone from the host. */
	| { readonly kind: "workspace" }
	/** It could not be started again. */
	| { readonly kind: "start"; readonly problem: string }
	/** The caller asked for it. */
	| { readonly kind: "replace" };

/** One line for people. */
export function describeReason(reason: Reason): string {
	switch (reason.kind) {
		case "absent":
			return "there is none yet";
		case "shape":
			return describeMismatch(reason);
		case "expired":
			return `it is ${formatDuration(reason.ageMs)} old and may live ${formatDuration(reason.limitMs)}`;
		case "state":
			return `its container is ${reason.state}`;
		case "labels":
			return `its container cannot be read: ${reason.problem}`;
		case "workspace":
			return "its workspace directory is gone";
		case "start":
			return `its container does not start: ${reason.problem}`;
		case "replace":
			return "a clean one was asked for";
	}
}

const RELATION: Readonly<Record<string, string>> = {
	capacity: "is less than the asked",
	ceiling: "is looser than the asked",
	identity: "is not the asked",
};

function describeMismatch({ field, rule, have, want }: Mismatch): string {
	return `${field} ${describeValue(field, have)} ${RELATION[rule] ?? "differs from"} ${describeValue(field, want)} (${rule})`;
}

function describeValue(field: keyof Shape, value: Mismatch["have"]): string {
	if (typeof value === "number") {
		if (field.endsWith("Bytes")) return formatSize(value);
		if (field.endsWith("Ms")) return formatDuration(value);
		return String(value);
	}
	if (field === "imageId") return String(value).slice(0, 19);
	if (field === "ports")
		return describeList(
			value as readonly PortShape[],
			(port) => `${port.hostPort ?? "any"}→${port.port}/${port.protocol}`,
		);
	if (field === "mounts") {
		return describeList(
			value as readonly MountShape[],
			(mount) => `${mount.source}→${mount.target}${mount.readOnly ? " (read-only)" : ""}`,
		);
	}
	return value === null ? "default" : String(value);
}

function describeList<Item>(items: readonly Item[], describe: (item: Item) => string): string {
	return items.length === 0 ? "none" : items.map(describe).join(", ");
}

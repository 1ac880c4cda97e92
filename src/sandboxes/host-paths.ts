/** Which paths of the host may be mounted, and where inside. */
import { realpathSync } from "node:fs";
import { posix } from "node:path";
import { invalid } from "../primitives/checks.js";
import { messageOf } from "../primitives/errors.js";
import { HOME_TARGET, WORKSPACE_TARGET } from "./defaults.js";
import type { MountShape } from "./shape.js";

/** Never mounted, nor anything below. */
const FORBIDDEN_TREES = ["/proc", "/sys", "/dev", "/run", "/var/run"];
/** Taken inside, and everything below. */
const TAKEN_TARGETS = [
	"/proc",
	"/sys",
	"/dev",
	WORKSPACE_TARGET,
	HOME_TARGET,
	"/etc/passwd",
	"/etc/group",
	"/etc/hosts",
	"/etc/hostname",
	"/etc/resolv.conf",
];

/** What no mount may reach: the root with everybody's workspaces, the engine's socket. */
export interface Guarded {
	readonly root: string;
	readonly engineSocket: string | undefined;
}

/** The source, links resolved, or a refusal that says why. */
export function checkSource(field: string, source: unknown, guarded: Guarded): string {
	if (typeof source !== "string" || !posix.isAbsolute(source) || source.includes("\0")) {
		throw invalid(field, "an absolute path of the host", source);
	}
	let resolved: string;
	try {
		resolved = realpathSync(source);
	} catch (error) {
		throw invalid(field, "a path of the host that exists", source, messageOf(error));
	}
	for (const path of new Set([posix.normalize(source), resolved])) {
		if (path === "/") throw invalid(field, "a path other than / (the whole host)", source);
		const tree = FORBIDDEN_TREES.find((forbidden) => isWithin(path, forbidden));
		if (tree) throw invalid(field, `a path outside ${tree}`, source);
		if (overlapsAny(path, guarded.root))
			throw invalid(field, "a path that does not hold the root of the sandboxes", source);
		if (guarded.engineSocket && overlapsAny(path, guarded.engineSocket)) {
			throw invalid(field, "a path that does not hold the engine's socket, which is root on the host", source);
		}
	}
	return resolved;
}

/** The target, normalised, or a refusal that says why. */
export function checkTarget(field: string, target: unknown): string {
	if (typeof target !== "string" || !posix.isAbsolute(target) || target.includes("\0")) {
		throw invalid(field, "an absolute path inside the sandbox", target);
	}
	const path = posix.normalize(target).replace(/\/$/, "");
	if (path === "") throw invalid(field, "a path other than /", target);
	const taken = TAKEN_TARGETS.find((other) => overlaps(path, other));
	if (taken) throw invalid(field, `a path that does not overlap ${taken}`, target);
	return path;
}

/** Mounts in one order whatever the order they were given in; two on one target, or one inside another, are refused. */
export function sortMounts(mounts: readonly MountShape[]): readonly MountShape[] {
	const sorted = [...mounts].sort((a, b) => (a.target < b.target ? -1 : a.target > b.target ? 1 : 0));
	for (const mount of sorted) {
		const other = sorted.find((candidate) => candidate !== mount && isWithin(candidate.target, mount.target));
		if (other) throw invalid("mounts", "targets that do not overlap", `${mount.target} and ${other.target}`);
	}
	return sorted;
}

function isWithin(path: string, tree: string): boolean {
	return path === tree || path.startsWith(tree.endsWith("/") ? tree : `${tree}/`);
}

/** Whether a path overlaps another one as it is written, or as it is once its links are resolved. */
function overlapsAny(path: string, other: string): boolean {
	return overlaps(path, other) || overlaps(path, resolveExisting(other));
}

/** The path with the links of the part that exists resolved. */
function resolveExisting(path: string): string {
	try {
		return realpathSync(path);
	} catch {
		const parent = posix.dirname(path);
		return parent === path ? path : posix.join(resolveExisting(parent), posix.basename(path));
	}
}

function overlaps(a: string, b: string): boolean {
	return isWithin(a, b) || isWithin(b, a);
}

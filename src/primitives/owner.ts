/** Who a process is, told so that another process can see whether it still lives, without clocks. */
import { randomBytes } from "node:crypto";
import { readFileSync, readlinkSync } from "node:fs";
import { systemCode } from "./errors.js";

/** One process. Without `/proc` all but `pid` and `nonce` are empty or 0. */
export interface Owner {
	/** Another id is another start of the machine. */
	readonly bootId: string;
	/** The namespace in which `pid` counts, as in `pid:[4026531836]`. */
	readonly pidNamespace: string;
	readonly pid: number;
	/** In clock ticks since the machine's start: tells a process from a later one with the same pid. */
	readonly startTime: number;
	/** Random, per process (and per worker thread). */
	readonly nonce: string;
}

const PROC = "/proc";

let self: Owner | undefined;

/** The process this runs in; looked up once. */
export function thisOwner(): Owner {
	self ??= describeSelf(PROC);
	return self;
}

/** {@link thisOwner} afresh, from a given `/proc`. */
export function describeSelf(proc: string): Owner {
	return {
		...here(proc),
		pid: process.pid,
		startTime: readStat(proc, process.pid)?.startTime ?? 0,
		nonce: randomBytes(8).toString("hex"),
	};
}

/**
 * Whether a process still lives: exact within one pid namespace and one start of the machine (a zombie is dead, a pid
 * given to a later process is dead). `unknown` where it cannot be seen from here: another pid namespace, or a `/proc`
 * that hides it. An owner of an earlier start of the machine is dead. Without `/proc` a live process with the same pid counts as the owner.
 */
export function ownerState(owner: Owner, proc: string = PROC): "alive" | "dead" | "unknown" {
	const { bootId, pidNamespace } = here(proc);
	if (owner.bootId !== "" && bootId !== "" && owner.bootId !== bootId) return "dead";
	if (owner.pidNamespace !== "" && pidNamespace !== "" && owner.pidNamespace !== pidNamespace) return "unknown";
	const comparable = owner.startTime > 0 && pidNamespace !== "";
	if (!comparable) return exists(owner.pid) ? "alive" : "dead";
	const stat = readStat(proc, owner.pid);
	if (!stat) return exists(owner.pid) ? "unknown" : "dead";
	return stat.ended || stat.startTime !== owner.startTime ? "dead" : "alive";
}

/** An owner read back from JSON, or `undefined` when it is not one. */
export function parseOwner(value: unknown): Owner | undefined {
	if (typeof value !== "object" || value === null) return undefined;
	const { bootId, pidNamespace, pid, startTime, nonce } = value as Partial<Record<keyof Owner, unknown>>;
	if (typeof bootId !== "string" || typeof pidNamespace !== "string" || typeof nonce !== "string") return undefined;
	if (typeof pid !== "number" || !Number.isSafeInteger(pid) || pid <= 0) return undefined;
	if (typeof startTime !== "number" || !Number.isSafeInteger(startTime) || startTime < 0) return undefined;
	return { bootId, pidNamespace, pid, startTime, nonce };
}

const places = new Map<string, { bootId: string; pidNamespace: string }>();

function here(proc: string): { bootId: string; pidNamespace: string } {
	let place = places.get(proc);
	if (!place) {
		place = {
			bootId: attempt(() => readFileSync(`${proc}/sys/kernel/random/boot_id`, "utf8").trim()) ?? "",
			pidNamespace: attempt(() => readlinkSync(`${proc}/self/ns/pid`)) ?? "",
		};
		places.set(proc, place);
	}
	return place;
}

/** Fields 3 and 22 of `/proc/<pid>/stat`; the second field, the command, may hold spaces and brackets. */
function readStat(proc: string, pid: number): { ended: boolean; startTime: number } | undefined {
	const text = attempt(() => readFileSync(`${proc}/${pid}/stat`, "latin1"));
	const fields = text?.slice(text.lastIndexOf(")") + 2).split(" ");
	const state = fields?.[0];
	const startTime = Number(fields?.[19]);
	if (state === undefined || !Number.isSafeInteger(startTime)) return undefined;
	return { ended: state === "Z" || state === "X" || state === "x", startTime };
}

/** Whether any process has this pid; one that may not be signalled exists as well. */
function exists(pid: number): boolean {
	try {
		process.kill(pid, 0);
		return true;
	} catch (error) {
		return systemCode(error) !== "ESRCH";
	}
}

function attempt<T>(work: () => T): T | undefined {
	try {
		return work();
	} catch {
		return undefined;
	}
}

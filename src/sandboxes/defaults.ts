/** What an option that is left out means. Documentation and `--help` print these. */
import { GiB, MiB } from "../primitives/units.js";

export const DEFAULT_PREFIX = "sbx";
export const DEFAULT_RUNTIME = "node";

/** Where the workspace is inside. */
export const WORKSPACE_TARGET = "/workspace";
/** The home directory inside, kept like the workspace. */
export const HOME_TARGET = "/home/sandbox";
/** The name that the sandbox's user has inside. */
export const USER_NAME = "sandbox";
/** The unprivileged user inside when the caller is root: outside the ranges that people, services and images use. */
export const UNPRIVILEGED_ID = 20_001;

export interface ShapeDefaults {
	readonly memory: number;
	readonly cpus: number;
	readonly pids: number;
	readonly shmSize: number;
	readonly idleTimeoutMs: number;
	readonly maxLifetimeMs: number;
	readonly stopGraceMs: number;
}

export const DEFAULTS: ShapeDefaults = {
	memory: MiB(512),
	cpus: 1,
	pids: 512,
	shmSize: MiB(64),
	idleTimeoutMs: 5 * 60_000,
	maxLifetimeMs: 60 * 60_000,
	stopGraceMs: 10_000,
};

/** Where a runtime needs more than the common defaults. */
export const RUNTIME_DEFAULTS: ReadonlyMap<string, Partial<ShapeDefaults>> = new Map([
	["browser", { memory: GiB(1), shmSize: MiB(512) }],
]);

/** What `user: "root"` gets back of the capabilities that are all dropped: enough for a package manager. */
export const ROOT_CAPABILITIES: readonly string[] = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"];

/** The ranges within which numbers are accepted. */
export const RANGES = {
	memory: { min: MiB(6), max: 64 * 1024 ** 4 },
	pids: { min: 16, max: 4_194_304 },
	shmSize: { min: 64 * 1024, max: 64 * 1024 ** 4 },
	cpus: { min: 0.01 },
	durationMs: { min: 0, max: 10 * 365 * 86_400_000 },
	stopGraceMs: { min: 0, max: 3_600_000 },
} as const;

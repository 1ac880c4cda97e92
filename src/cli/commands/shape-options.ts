/** The options that say what is asked of a sandbox, as `create` and `plan` take them; defaults are the library's own. */
import {
	type Bytes,
	type CreateOptions,
	DEFAULT_RUNTIME,
	DEFAULTS,
	formatDuration,
	formatSize,
	type MountOption,
	type PortOption,
	RUNTIME_DEFAULTS,
	type ShapeDefaults,
} from "../../index.js";
import {
	durationOf,
	envFrom,
	labelOf,
	mountOf,
	numberOf,
	oneOf,
	publishOf,
	refuse,
	sizeOf,
	wholeOf,
} from "../arguments.js";
import type { OptionSpec } from "../spec.js";

/** The options as commander gives them. */
export interface ShapeFlags {
	readonly runtime?: string;
	readonly image?: string;
	readonly memory?: Bytes;
	readonly cpus?: number;
	readonly pids?: number;
	readonly shmSize?: Bytes;
	readonly idleTimeout?: number;
	readonly maxLifetime?: number;
	readonly stopGrace?: number;
	readonly network?: "none" | "bridge";
	readonly publish?: readonly PortOption[];
	readonly mount?: readonly MountOption[];
	readonly user?: string;
	readonly readOnlyRoot?: boolean;
	readonly ociRuntime?: string;
	readonly env?: Readonly<Record<string, string>>;
	readonly label?: Readonly<Record<string, string>>;
	readonly replace?: boolean;
}

export function shapeOptions(env: Readonly<Record<string, string | undefined>>): readonly OptionSpec[] {
	return [
		{ flags: "--runtime <name>", description: `a runtime that ships with this program (default: ${DEFAULT_RUNTIME})` },
		{ flags: "--image <reference>", description: "any other image; not together with --runtime" },
		{
			flags: "-m, --memory <size>",
			description: `memory ceiling ${defaultOf("memory", formatSize)}`,
			parse: sizeOf("--memory"),
		},
		{
			flags: "--cpus <number>",
			description: `processor share ${defaultOf("cpus", String)}`,
			parse: numberOf("--cpus"),
		},
		{
			flags: "--pids <number>",
			description: `most processes at once ${defaultOf("pids", String)}`,
			parse: wholeOf("--pids"),
		},
		{
			flags: "--shm-size <size>",
			description: `size of /dev/shm ${defaultOf("shmSize", formatSize)}`,
			parse: sizeOf("--shm-size"),
		},
		{
			flags: "--idle-timeout <duration>",
			description: `how long it may stand unused; 0: no limit ${defaultOf("idleTimeoutMs", formatDuration)}`,
			parse: durationOf("--idle-timeout"),
		},
		{
			flags: "--max-lifetime <duration>",
			description: `how old its container may grow; 0: no limit ${defaultOf("maxLifetimeMs", formatDuration)}`,
			parse: durationOf("--max-lifetime"),
		},
		{
			flags: "--stop-grace <duration>",
			description: `how long commands get to end at a stop ${defaultOf("stopGraceMs", formatDuration)}`,
			parse: durationOf("--stop-grace"),
		},
		{
			flags: "--network <mode>",
			description: "bridge or none (default: bridge)",
			parse: oneOf("--network", ["bridge", "none"]),
		},
		{
			flags: "-p, --publish <port>",
			description: "HOST:PORT[/udp] on 127.0.0.1, or PORT for any free port; repeatable",
			parse: publishOf,
		},
		{
			flags: "--mount <src:dst>",
			description: "path of the host seen inside, read-only unless :rw is added; repeatable",
			parse: mountOf,
		},
		{ flags: "-u, --user <user>", description: "caller, root or uid:gid (default: caller)" },
		{ flags: "--read-only-root", description: "only workspace, home and temporary directories can be written" },
		{
			flags: "--oci-runtime <name>",
			description: "an OCI runtime of the engine, such as runsc (default: the engine's)",
		},
		{
			flags: "-e, --env <name=value>",
			description: "variable of every command; NAME alone takes yours; repeatable",
			parse: envFrom(env),
		},
		{ flags: "-l, --label <name=value>", description: "label, shown by list --json; repeatable", parse: labelOf },
		{ flags: "--replace", description: "remove container and workspace first, then build clean" },
	];
}

/** The options for the library. What was not given stays left out, so that the library's defaults hold. */
export function toCreateOptions(flags: ShapeFlags): CreateOptions {
	const { runtime, image, user } = flags;
	if (runtime !== undefined && image !== undefined) throw refuse("--image", "either --runtime or --image", image);
	return {
		...(image === undefined ? { runtime } : { image }),
		memory: flags.memory,
		cpus: flags.cpus,
		pids: flags.pids,
		shmSize: flags.shmSize,
		idleTimeoutMs: flags.idleTimeout,
		maxLifetimeMs: flags.maxLifetime,
		stopGraceMs: flags.stopGrace,
		network: flags.network,
		ports: flags.publish,
		mounts: flags.mount,
		user: user as CreateOptions["user"],
		readOnlyRoot: flags.readOnlyRoot,
		ociRuntime: flags.ociRuntime,
		env: flags.env,
		labels: flags.label,
		replace: flags.replace,
	};
}

function defaultOf(key: keyof ShapeDefaults, format: (value: number) => string): string {
	const others = [...RUNTIME_DEFAULTS].flatMap(([runtime, defaults]) => {
		const value = defaults[key];
		return value === undefined ? [] : [`${runtime}: ${format(value)}`];
	});
	return `(default: ${[format(DEFAULTS[key]), ...others].join("; ")})`;
}

/** The options that say what is asked of a sandbox, as `create` and `plan` take them; defaults are the library's own. */
import type { Command } from "commander";
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

export function addShapeOptions(command: Command, env: Readonly<Record<string, string | undefined>>): Command {
	return command
		.option("--runtime <name>", `a runtime that ships with this program (default: ${DEFAULT_RUNTIME})`)
		.option("--image <reference>", "any other image; not together with --runtime")
		.option("-m, --memory <size>", `memory ceiling ${defaultOf("memory", formatSize)}`, sizeOf("--memory"))
		.option("--cpus <number>", `processor share ${defaultOf("cpus", String)}`, numberOf("--cpus"))
		.option("--pids <number>", `most processes at once ${defaultOf("pids", String)}`, wholeOf("--pids"))
		.option("--shm-size <size>", `size of /dev/shm ${defaultOf("shmSize", formatSize)}`, sizeOf("--shm-size"))
		.option(
			"--idle-timeout <duration>",
			`how long it may stand unused; 0: no limit ${defaultOf("idleTimeoutMs", formatDuration)}`,
			durationOf("--idle-timeout"),
		)
		.option(
			"--max-lifetime <duration>",
			`how old its container may grow; 0: no limit ${defaultOf("maxLifetimeMs", formatDuration)}`,
			durationOf("--max-lifetime"),
		)
		.option(
			"--stop-grace <duration>",
			`how long commands get to end at a stop ${defaultOf("stopGraceMs", formatDuration)}`,
			durationOf("--stop-grace"),
		)
		.option("--network <mode>", "bridge or none (default: bridge)", oneOf("--network", ["bridge", "none"]))
		.option("-p, --publish <port>", "HOST:PORT[/udp] on 127.0.0.1, or PORT for any free port; repeatable", publishOf)
		.option("--mount <src:dst>", "path of the host seen inside, read-only unless :rw is added; repeatable", mountOf)
		.option("-u, --user <user>", "caller, root or uid:gid (default: caller)")
		.option("--read-only-root", "only workspace, home and temporary directories can be written")
		.option("--oci-runtime <name>", "an OCI runtime of the engine, such as runsc (default: the engine's)")
		.option("-e, --env <name=value>", "variable of every command; NAME alone takes yours; repeatable", envFrom(env))
		.option("-l, --label <name=value>", "label, shown by list --json; repeatable", labelOf)
		.option("--replace", "remove container and workspace first, then build clean");
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

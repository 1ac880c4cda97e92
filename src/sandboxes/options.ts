/** What callers may ask for: plain readonly options. */
import type { ProgressSink } from "../primitives/progress.js";
import type { Bytes } from "../primitives/units.js";

/** A port of the sandbox to be published on the host's loopback address. */
export interface PortOption {
	readonly port: number;
	readonly protocol?: "tcp" | "udp";
	/** Left out: any free port; `box.ports` tells which. */
	readonly hostPort?: number;
	/** Default `127.0.0.1`. */
	readonly hostIp?: string;
}

/** A directory or file of the host to be seen inside, beside the workspace. */
export interface MountOption {
	/** An absolute path of the host that exists; links are resolved once. */
	readonly source: string;
	/** An absolute path inside. */
	readonly target: string;
	/** Default `true`. */
	readonly readOnly?: boolean;
}

/** Which image: a runtime we ship (or that the constructor names), or any image reference; not both. */
export type ImageChoice =
	| { readonly runtime?: string | undefined; readonly image?: never }
	| { readonly image?: string | undefined; readonly runtime?: never };

/** What is asked of a sandbox. An option left out takes its default before the decision, so the same call always gives the same guarantees. */
export interface ShapeOptions {
	/** Memory ceiling, swap included. Default 512 MiB (`browser`: 1 GiB); at least 6 MiB. Capacity: more also serves. */
	readonly memory?: Bytes | undefined;
	/** Processor share; 0.5 is half of one. Default 1; at most what the machine has. Capacity. */
	readonly cpus?: number | undefined;
	/** Most processes and threads at once. Default 512; at least 16. Capacity. */
	readonly pids?: number | undefined;
	/** Size of `/dev/shm`; counts as memory. Default 64 MiB (`browser`: 512 MiB). Capacity. */
	readonly shmSize?: Bytes | undefined;
	/** How long it may stand unused, in ms; 0 is no limit. Default 5 min. Ceiling: a tighter one also serves. */
	readonly idleTimeoutMs?: number | undefined;
	/** How old its container may grow, in ms; 0 is no limit. Default 1 h. Ceiling. An older one is rebuilt. */
	readonly maxLifetimeMs?: number | undefined;
	/** How long commands get to end at a stop before they are killed, in ms. Default 10 s. Adjustable. */
	readonly stopGraceMs?: number | undefined;
	/** `bridge` (default): out through a bridge of this fleet's own, not to one another. `none`: only loopback. Identity. */
	readonly network?: "none" | "bridge" | undefined;
	/** Ports to publish on the host. Capacity: more also serve. */
	readonly ports?: readonly (number | PortOption)[] | undefined;
	/** Paths of the host to mount beside the workspace. Identity. */
	readonly mounts?: readonly MountOption[] | undefined;
	/** `caller` (default): the caller's uid and gid, or an unprivileged one when the caller is root. `root`: an explicit choice with five capabilities. `uid:gid`. Identity. */
	readonly user?: "caller" | "root" | `${number}:${number}` | undefined;
	/** Whether everything but workspace, home and temporary directories is read-only. Default `false`. Identity. */
	readonly readOnlyRoot?: boolean | undefined;
	/** An OCI runtime that the engine knows, such as `runsc`. Default: the engine's. Identity. */
	readonly ociRuntime?: string | undefined;
	/** Environment of every command from now on. Left out: what was stated last stays. Kept in the ledger, never in labels. Adjustable. */
	readonly env?: Readonly<Record<string, string>> | undefined;
	/** Labels of the caller's own, shown by `list()`. Left out: what was stated last stays. Adjustable. */
	readonly labels?: Readonly<Record<string, string>> | undefined;
}

/** Options of a call that only looks or may take long. */
export interface CallOptions {
	/** Ends the call early; it then rejects with the signal's own reason. */
	readonly signal?: AbortSignal | undefined;
}

export interface ProgressCallOptions extends CallOptions {
	/** Told what long work is doing: builds, pulls, rebuilds. */
	readonly onProgress?: ProgressSink | undefined;
}

/** Options of `create()`. */
export type CreateOptions = ShapeOptions &
	ImageChoice &
	ProgressCallOptions & {
		/** Remove container and workspace first, then build clean. An action: recorded nowhere. Default `false`. */
		readonly replace?: boolean | undefined;
	};

/** Options of `plan()`. */
export type PlanOptions = CreateOptions;

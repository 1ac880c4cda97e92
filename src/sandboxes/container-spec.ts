/** From a shape to the container that has it. Pure. */
import type { ContainerSpec } from "../engine/engine.js";
import { SUPERVISOR_COMMAND } from "../exec/supervisor.js";
import { HOME_TARGET, ROOT_CAPABILITIES, USER_NAME, WORKSPACE_TARGET } from "./defaults.js";
import type { Shape } from "./shape.js";

export interface ContainerParts {
	readonly containerName: string;
	readonly sandboxName: string;
	readonly shape: Shape;
	readonly stopGraceMs: number;
	readonly labels: Readonly<Record<string, string>>;
	readonly networkName: string;
	readonly workspacePath: string;
	readonly homePath: string;
	/** Generated account files; absent where the image's own are kept (`root`, whose packages may add users). */
	readonly accounts: { readonly passwdPath: string; readonly groupPath: string } | undefined;
}

/** Room for temporary files where the root file system is read-only; it counts as the sandbox's memory. */
const TMPFS = "rw,exec,nosuid,nodev,mode=1777";

export function toContainerSpec(parts: ContainerParts): ContainerSpec {
	const { shape } = parts;
	const accounts = parts.accounts
		? [
				{ source: parts.accounts.passwdPath, target: "/etc/passwd", readOnly: true },
				{ source: parts.accounts.groupPath, target: "/etc/group", readOnly: true },
			]
		: [];
	return {
		name: parts.containerName,
		image: shape.imageId,
		entrypoint: SUPERVISOR_COMMAND,
		command: ["sandbox-supervisor"],
		env: { HOME: HOME_TARGET, USER: shape.user === "root" ? "root" : USER_NAME },
		labels: parts.labels,
		user: shape.user,
		workingDir: WORKSPACE_TARGET,
		hostname: toHostname(parts.sandboxName),
		memoryBytes: shape.memoryBytes,
		cpus: shape.cpus,
		pids: shape.pids,
		shmBytes: shape.shmBytes,
		stopGraceMs: parts.stopGraceMs,
		mounts: [
			{ source: parts.workspacePath, target: WORKSPACE_TARGET, readOnly: false },
			{ source: parts.homePath, target: HOME_TARGET, readOnly: false },
			...accounts,
			...shape.mounts,
		],
		tmpfs: shape.readOnlyRoot ? { "/tmp": TMPFS, "/var/tmp": TMPFS, "/run": TMPFS } : {},
		network: parts.networkName,
		ports: shape.ports.map(({ port, protocol, hostPort, hostIp }) => ({
			port,
			protocol,
			hostIp,
			...(hostPort === null ? {} : { hostPort }),
		})),
		readOnlyRoot: shape.readOnlyRoot,
		capAdd: shape.user === "root" ? ROOT_CAPABILITIES : [],
		...(shape.ociRuntime === null ? {} : { ociRuntime: shape.ociRuntime }),
	};
}

/** A host name that every resolver takes: letters, digits and dashes, at most 63. */
function toHostname(name: string): string {
	return (
		name
			.replace(/[^a-z0-9-]/g, "-")
			.replace(/-+$/, "")
			.slice(0, 63) || "sandbox"
	);
}

/** Uid and gid that own workspace and home. */
export function toOwnerIds(user: string): { uid: number; gid: number } {
	if (user === "root") return { uid: 0, gid: 0 };
	const [uid, gid] = user.split(":").map(Number);
	return { uid: uid ?? 0, gid: gid ?? 0 };
}

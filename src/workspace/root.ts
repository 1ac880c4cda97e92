/** The root: the one directory on the host that holds everything of its sandboxes, and knows its own id. */
import { type BigIntStats, chmodSync, mkdirSync, readdirSync, realpathSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { messageOf, SandboxError, systemCode } from "../primitives/errors.js";
import { ensureRecord, isCurrent, type RootOrigin, readIdFile } from "./root-id.js";
import { resolveRootPath, whyNoRoot } from "./root-path.js";

export type { RootOrigin } from "./root-id.js";
export { resolveRootPath } from "./root-path.js";

/** Whatever stands at the top of a root. Nothing else may be in a directory that is to become one, or that lost its id. */
const OUR_ENTRIES = /^(?:id|id\..+|ledger|ledger\..+|workspaces|homes|accounts|names|images|snapshots|locks|trash)$/;

export class Root {
	/** The absolute path, resolved once. Links in it are kept as they were given. */
	readonly path: string;
	/** The random id of this root: 32 hexadecimal digits. The same for every process that opens it. */
	readonly id: string;
	/** How it came by its id. `renewed` means that containers made before are no longer known as its own. */
	readonly origin: RootOrigin;

	private constructor(path: string, id: string, origin: RootOrigin) {
		this.path = path;
		this.id = id;
		this.origin = origin;
	}

	/**
	 * Opens the root at `path`, and makes it where there is none. `undefined` is the per-user data directory.
	 *
	 * A root is made with mode 0700, its missing parents as usual. An empty directory becomes a root; one that holds anything else is
	 * refused, never touched. Both must belong to the caller, root included: whoever owns a root can lead its users astray.
	 * A root that others could enter is closed to them. A copied root gets a new id, a moved one keeps it (see `root-id.ts`).
	 * Opening a root that is as it should be costs one `stat` and one read, and writes nothing.
	 *
	 * Throws `invalid_input` as `resolveRootPath`, and `workspace_unusable`.
	 */
	static async open(path: string | undefined): Promise<Root> {
		const resolved = resolveRootPath(path);
		try {
			const { id, origin } = findKnown(resolved) ?? ensureRoot(resolved);
			return new Root(resolved, id, origin);
		} catch (error) {
			if (error instanceof SandboxError) throw error;
			throw unusable(resolved, systemReason(error), undefined, error);
		}
	}
}

interface Identity {
	readonly id: string;
	readonly origin: RootOrigin;
}

/** The root's identity, if everything is as it should be. */
function findKnown(path: string): Identity | undefined {
	const stat = statSync(path, { bigint: true, throwIfNoEntry: false });
	if (!stat?.isDirectory() || !isOurs(stat) || (stat.mode & 0o777n) !== 0o700n) return undefined;
	const file = readIdFile(join(path, "id"));
	if (!file || !("record" in file) || !isCurrent(file.record, stat, path)) return undefined;
	return { id: file.record.id, origin: "known" };
}

/** Makes the root, or makes right what is not as it should be. */
function ensureRoot(path: string): Identity {
	makeDirectory(path);
	const stat = statSync(path, { bigint: true });
	if (!stat.isDirectory()) throw unusable(path, "it is not a directory");
	const refused = whyNoRoot(realpathSync(path));
	if (refused) throw unusable(path, `it leads to ${realpathSync(path)}, and a root is ${refused}`);
	if (!isOurs(stat)) {
		throw unusable(path, `it belongs to uid ${stat.uid}, not to the caller`, "give another root, or chown this one");
	}
	const foreign = holdsRecord(path) ? undefined : findForeign(path);
	// Asked once more: another process may have made it a root between the two looks.
	if (foreign !== undefined && !holdsRecord(path)) {
		throw unusable(
			path,
			`it is not empty and not a root: it holds ${JSON.stringify(foreign)}`,
			"give an empty or a new directory",
		);
	}
	const hadMore = readdirSync(path).some((name) => !name.startsWith("id"));
	if ((stat.mode & 0o777n) !== 0o700n) chmodSync(path, 0o700);
	const { record, origin } = ensureRecord(path, stat);
	return { id: record.id, origin: origin === "made" && hadMore ? "renewed" : origin };
}

function makeDirectory(path: string): void {
	if (statSync(path, { throwIfNoEntry: false })) return;
	mkdirSync(dirname(path), { recursive: true });
	try {
		mkdirSync(path, 0o700);
	} catch (error) {
		if (systemCode(error) !== "EEXIST") throw error;
	}
}

function holdsRecord(path: string): boolean {
	const file = readIdFile(join(path, "id"));
	return file !== undefined && "record" in file;
}

function findForeign(path: string): string | undefined {
	return readdirSync(path).find((name) => !OUR_ENTRIES.test(name));
}

function isOurs(stat: BigIntStats): boolean {
	const euid = process.geteuid?.();
	return euid === undefined || stat.uid === BigInt(euid);
}

function systemReason(error: unknown): string {
	const reasons: Readonly<Record<string, string>> = {
		EACCES: "the caller may not do that",
		EPERM: "the caller may not do that, or its file system has no hard links",
		ENOTDIR: "a part of the path is not a directory",
		ELOOP: "its links lead in a circle",
		ENOENT: "it is a link that leads nowhere",
		EROFS: "its file system is read-only",
		ENOSPC: "no space is left",
		ENAMETOOLONG: "the path is too long",
	};
	const code = systemCode(error);
	const reason = code === undefined ? undefined : reasons[code];
	return reason ? `${reason} (${code})` : messageOf(error);
}

function unusable(path: string, reason: string, hint?: string, cause?: unknown): SandboxError<"workspace_unusable"> {
	return new SandboxError("workspace_unusable", `root ${path}: ${reason}`, {
		details: { path, reason },
		...(hint === undefined ? {} : { hint }),
		...(cause === undefined ? {} : { cause }),
	});
}

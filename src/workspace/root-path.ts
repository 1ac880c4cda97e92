/** Which directory may be a root, and where it is when nobody says. */
import { homedir } from "node:os";
import { isAbsolute, join, resolve } from "node:path";
import { invalid } from "../primitives/checks.js";

/** Directories of the system and of everybody: a root may lie below most of them, but never be one. */
const SYSTEM_DIRECTORIES: readonly string[] = [
	..."bin boot dev etc home lib lib32 lib64 lost+found media mnt opt proc root run sbin srv sys tmp usr var".split(" "),
	..."dev/shm run/user usr/bin usr/lib usr/local usr/local/bin usr/local/lib usr/sbin usr/share usr/src".split(" "),
	..."var/cache var/db var/lib var/lib/docker var/log var/run var/spool var/tmp".split(" "),
	..."Applications Library System Users Volumes private private/etc private/tmp private/var private/var/tmp".split(" "),
].map((path) => `/${path}`);
/** Nothing below these is a place for files. */
const KERNEL_TREES = ["/proc", "/sys", "/dev"];

/**
 * The absolute path of a root, resolved against the current directory now, so that a later `chdir` changes nothing.
 *
 * `undefined` is the per-user data directory: `$XDG_DATA_HOME/sandboxes`, else `~/.local/share/sandboxes`. Touches no file system.
 * Throws `invalid_input` for what is no text, empty, holds a NUL, or is `/`, a system directory or the home directory itself.
 */
export function resolveRootPath(path: unknown): string {
	if (path === undefined) return resolveRootPath(defaultRootPath());
	if (typeof path !== "string") throw invalid("root", "the path of a directory", path);
	if (path.trim() === "") throw invalid("root", "a path that is not empty", path, "leave it out for the default");
	if (path.includes("\0")) throw invalid("root", "a path without NUL", path);
	const absolute = resolve(path);
	const refused = whyNoRoot(absolute);
	if (refused) throw invalid("root", refused, path, "give it a directory of its own, such as /var/tmp/sandboxes");
	return absolute;
}

/** What is expected of a root that this absolute path is not; `undefined` when it may be one. */
export function whyNoRoot(path: string): string | undefined {
	if (path === "/") return "a directory other than /";
	if (SYSTEM_DIRECTORIES.includes(path)) return "a directory that is not one of the system's own";
	const tree = KERNEL_TREES.find((kernelTree) => path.startsWith(`${kernelTree}/`) && !path.startsWith("/dev/shm/"));
	if (tree) return `a directory outside ${tree}`;
	const home = findHome();
	if (home !== undefined && path === resolve(home)) return "a directory other than the home directory itself";
	return undefined;
}

function defaultRootPath(): string {
	const data = process.env["XDG_DATA_HOME"];
	// The XDG base directory specification has relative paths ignored.
	if (data && isAbsolute(data)) return join(data, "sandboxes");
	const home = findHome();
	if (!home || !isAbsolute(home) || home === "/") {
		throw invalid("root", "a path, because there is no home directory to put the default in", undefined);
	}
	return join(home, ".local", "share", "sandboxes");
}

function findHome(): string | undefined {
	try {
		return homedir();
	} catch {
		// A uid without an account and without HOME has none.
		return undefined;
	}
}

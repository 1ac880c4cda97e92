/** What the tests of the workspace room share: scratch directories, other users, awkward trees. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach } from "vitest";

const made: string[] = [];

/** A new directory below the system's temporary one; deleted after the test, whatever is in it. */
export function scratch(label = "ws"): string {
	const directory = mkdtempSync(join(tmpdir(), `sandboxes-${label}-`));
	made.push(directory);
	return directory;
}

afterEach(() => {
	for (const directory of made.splice(0)) {
		if (!isRoot) execFileSync("chmod", ["-R", "u+rwx", directory], { stdio: "ignore" });
		execFileSync("rm", ["-rf", directory]);
	}
});

export const isRoot = process.geteuid?.() === 0;
/** For the titles of tests that change their user. */
export const needsRoot = isRoot ? "" : " (skipped: only root can act as another user)";

/** Runs `work` with the rights of an ordinary user and gives root its own back. */
export async function asUser<T>(uid: number, work: () => Promise<T> | T): Promise<T> {
	const groups = process.getgroups?.() ?? [];
	process.setgroups?.([]);
	process.setegid?.(uid);
	process.seteuid?.(uid);
	try {
		return await work();
	} finally {
		process.seteuid?.(0);
		process.setegid?.(0);
		process.setgroups?.(groups);
	}
}

/** Directories one inside the other, deeper than any path can name. */
export function makeDeep(directory: string, levels: number, name = "d".repeat(40)): void {
	const script =
		'cd -- "$1" && i=0 && while [ $i -lt "$2" ]; do mkdir -- "$3" && cd -P -- "./$3" || exit 1; i=$((i+1)); done';
	mkdirSync(directory, { recursive: true });
	// Shells keep the whole path in PWD, which ends at PATH_MAX: so a few levels at a time, joined by moving.
	const chunk = 60;
	let rest = levels;
	let inner: string | undefined;
	while (rest > 0) {
		const count = Math.min(chunk, rest);
		const place = mkdtempSync(join(directory, "part-"));
		execFileSync("sh", ["-c", script, "sh", place, String(count), name]);
		if (inner) execFileSync("mv", [inner, join(place, ...Array.from({ length: count }, () => name), "below")]);
		inner = place;
		rest -= count;
	}
}

/** So many empty files, a hundred to a directory. */
export function makeWide(directory: string, entries: number): void {
	for (let made = 0; made < entries; made += 100) {
		const place = join(directory, `d${made}`);
		mkdirSync(place, { recursive: true });
		for (let i = 0; i < 99; i++) writeFileSync(join(place, `f${i}`), "");
	}
}

/** Descriptors this process has open. */
export function openDescriptors(): number {
	return readdirSync("/proc/self/fd").length;
}

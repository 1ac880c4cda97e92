/**
 * Loads proper-lockfile without what comes with it: signal-exit, whose listeners end the process at its first signal whenever
 * they are the last ones, a caller's `process.once` notwithstanding. Locks of a dead process are known as such without it.
 */
import { createRequire } from "node:module";

type Lockfile = typeof import("proper-lockfile");

let loaded: Lockfile | undefined;

export function loadLockfile(): Lockfile {
	loaded ??= withoutSignalListeners(() => createRequire(import.meta.url)("proper-lockfile") as Lockfile);
	return loaded;
}

/** Takes away the listeners for signals that `load`, which is synchronous, has added. */
function withoutSignalListeners<T>(load: () => T): T {
	const before = new Set(signalListeners().map(([, listener]) => listener));
	const value = load();
	for (const [name, listener] of signalListeners()) if (!before.has(listener)) process.removeListener(name, listener);
	return value;
}

function signalListeners(): [string, (...args: unknown[]) => void][] {
	return process
		.eventNames()
		.filter((name): name is string => typeof name === "string" && /^SIG[A-Z]/.test(name))
		.flatMap((name) =>
			process.rawListeners(name).map((listener): [string, (...args: unknown[]) => void] => [name, listener as never]),
		);
}

/** Making an image in one process at a time: two builds of the same recipe at once would give two identities. */
import { join } from "node:path";
import { NamedLocks } from "../locks/named-locks.js";
import { isSandboxError } from "../primitives/errors.js";
import type { ProgressSink } from "../primitives/progress.js";

/** Longer than a build may take; after that the other one is not waited for. */
const WAIT_MS = 60 * 60_000;
/** How soon a waiting caller hears what is waited for. */
const TELL_MS = 1000;

export interface MakeWork<T> {
	/** What another process may have made meanwhile. */
	find(signal: AbortSignal): Promise<T | undefined>;
	make(): Promise<T>;
}

/**
 * Runs one after the other, for each name, what the processes that share a directory want to make. Nothing rests on it but that two
 * need not do the same work: where the lock cannot be had or kept, the work is done without. No directory: nobody is waited for.
 */
export class OneAtATime {
	readonly #locks: NamedLocks | undefined;

	constructor(cacheDirectory: string | undefined) {
		this.#locks = cacheDirectory === undefined ? undefined : new NamedLocks(join(cacheDirectory, "locks"));
	}

	async run<T>(name: string, work: MakeWork<T>, signal: AbortSignal, onProgress: ProgressSink): Promise<T> {
		if (!this.#locks) return work.make();
		const message = `waiting for another process that makes ${name}`;
		const timer = setTimeout(() => onProgress({ stage: "build", message }), TELL_MS);
		const findOrMake = async (): Promise<T> => {
			clearTimeout(timer);
			return (await work.find(signal)) ?? work.make();
		};
		try {
			return await this.#locks.hold(name, findOrMake, { timeoutMs: WAIT_MS, signal });
		} catch (error) {
			if (signal.aborted || !isAboutTheLock(error)) throw error;
			return await findOrMake();
		} finally {
			clearTimeout(timer);
		}
	}
}

function isAboutTheLock(error: unknown): boolean {
	return (["lock_lost", "lock_timeout", "workspace_unusable"] as const).some((code) => isSandboxError(error, code));
}

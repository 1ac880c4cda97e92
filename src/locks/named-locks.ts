/**
 * A queue for a name, in this process and between processes. It spares retries; it is never what correctness rests on.
 * This room is the only one that has met proper-lockfile, which keeps a lock's heartbeat and tells when it is lost.
 */
import { createHash, randomBytes } from "node:crypto";
import * as fs from "node:fs";
import { join } from "node:path";
import { sleep, throwIfAborted } from "../primitives/abort.js";
import { messageOf, SandboxError, systemCode } from "../primitives/errors.js";
import { ownerState } from "../primitives/owner.js";
import { KeyedQueue } from "../primitives/queue.js";
import { loadLockfile } from "./load-lockfile.js";
import { breakLock, giveBack, type Holder, readHolder, removeDead, take } from "./lock-link.js";

export interface HoldOptions {
	/** How long to wait for the lock; not how long to hold it. Default 120,000 ms. */
	readonly timeoutMs?: number;
	/** Ends the wait, and aborts the signal that `work` is given. */
	readonly signal?: AbortSignal;
}

/** The lock as its holder has it. */
export interface HeldLock {
	/** Aborts with `lock_lost`, and never because the caller aborts. */
	readonly lost: AbortSignal;
	/** Looks whether the lock is still this holder's; throws `lock_lost` when it is not. A holder that was stopped asks before it goes on. */
	verify(): void;
}

export const DEFAULT_LOCK_TIMEOUT_MS = 120_000;

const BEAT_MS = 2000;
/**
 * How long a waiter must itself have watched a lock without a heartbeat before it takes it away. No wall clock is compared.
 * A holder that lives but shows no sign is stopped or hangs; taking its lock is safe because every commit is fenced.
 */
const PATIENCE_MS = { dead: 0, unreadable: 2000, unknown: 30_000, alive: 60_000 } as const;

/** Keyed by the lock's path: several instances on one directory share it. */
const queue = new KeyedQueue();
/** The hold that this process has, or tries to get, for each path. */
const holds = new Map<string, string>();

/**
 * Locks under names of any kind, as symbolic links `<name>-<hash>.lock` whose target is the owner's record. Beside one
 * that is being taken from a dead holder stands, for a moment, `….lock.break`. Nothing else is left in the directory.
 */
export class NamedLocks {
	readonly #directory: string;
	#ready = false;

	/** `directory` is made when it is first needed. It must be on a local file system. */
	constructor(directory: string) {
		this.#directory = directory;
	}

	/**
	 * Runs `work` while the name is held and gives what it gives. A holder that has died is noticed at once; one that lives is waited for.
	 *
	 * `work` is given a signal that aborts with `lock_lost` when the lock was lost; the call then rejects with `lock_lost`
	 * even if `work` returned. Rejects with `lock_timeout` (naming the holder's pid where it is known) when the wait was too long, and with
	 * the reason of the caller's own signal. What `work` throws comes through unchanged. Not re-entrant.
	 */
	async hold<T>(
		name: string,
		work: (signal: AbortSignal, lock: HeldLock) => Promise<T>,
		options: HoldOptions = {},
	): Promise<T> {
		const timeoutMs = options.timeoutMs ?? DEFAULT_LOCK_TIMEOUT_MS;
		const path = join(this.#directory, `${toFileName(name)}.lock`);
		const deadline = performance.now() + timeoutMs;
		const waiting = new AbortController();
		const forward = (): void => waiting.abort(options.signal?.reason);
		throwIfAborted(options.signal);
		options.signal?.addEventListener("abort", forward, { once: true });
		const timer = setTimeout(() => waiting.abort(timedOut(name, timeoutMs, process.pid)), timeoutMs);
		const endWait = (): void => {
			clearTimeout(timer);
			options.signal?.removeEventListener("abort", forward);
		};
		try {
			return await queue.run(
				path,
				async () => {
					clearTimeout(timer);
					const lock = await this.#acquire(name, path, timeoutMs, deadline, waiting.signal);
					endWait();
					return await runHeld(lock, work, options.signal);
				},
				waiting.signal,
			);
		} finally {
			endWait();
		}
	}

	async #acquire(name: string, path: string, timeoutMs: number, deadline: number, signal: AbortSignal): Promise<Lock> {
		const watch = new Watch();
		for (;;) {
			throwIfAborted(signal);
			const holder = this.#guarded(() => {
				if (!this.#ready) this.#prepare();
				return readHolder(path);
			});
			const lock = holder ? undefined : await this.#tryTake(name, path);
			if (lock) return lock;
			if (holder && watch.isOver(holder)) this.#guarded(() => breakLock(path, holder));
			const leftMs = deadline - performance.now();
			if (leftMs <= 0) throw timedOut(name, timeoutMs, holder?.owner?.pid);
			await sleep(Math.min(leftMs, 5 + Math.random() * Math.min(45, 5 * watch.looks)), signal);
		}
	}

	async #tryTake(name: string, path: string): Promise<Lock | undefined> {
		const lockfile = loadLockfile();
		const hold = randomBytes(6).toString("base64url");
		const lost = new AbortController();
		holds.set(path, hold);
		try {
			const release = await lockfile.lock(path, {
				lockfilePath: path,
				realpath: false,
				retries: 0,
				// By age nothing is ever stale here: it is this room that says whose lock may be taken away.
				stale: Number.MAX_SAFE_INTEGER,
				update: BEAT_MS,
				fs: lockFs,
				onCompromised: (cause) => lost.abort(lockLost(name, cause)),
			});
			return { name, path, hold, lost, release };
		} catch (error) {
			const code = systemCode(error);
			// The directory itself was removed meanwhile: it is made again at the next attempt.
			if (code === "ENOENT") this.#ready = false;
			if (code === "ELOCKED" || code === "ENOENT") return undefined;
			throw unusable(this.#directory, error);
		}
	}

	#prepare(): void {
		fs.mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
		removeDead(this.#directory);
		this.#ready = true;
	}

	#guarded<T>(work: () => T): T {
		try {
			return work();
		} catch (error) {
			throw unusable(this.#directory, error);
		}
	}
}

interface Lock {
	readonly name: string;
	readonly path: string;
	readonly hold: string;
	readonly lost: AbortController;
	readonly release: () => Promise<void>;
}

async function runHeld<T>(
	lock: Lock,
	work: (signal: AbortSignal, lock: HeldLock) => Promise<T>,
	signal: AbortSignal | undefined,
): Promise<T> {
	const { name, path, hold, lost } = lock;
	const controller = new AbortController();
	const onLost = (): void => controller.abort(lost.signal.reason);
	const onAbort = (): void => controller.abort(signal?.reason);
	lost.signal.addEventListener("abort", onLost, { once: true });
	signal?.addEventListener("abort", onAbort, { once: true });
	if (signal?.aborted) onAbort();
	const look = (): void => {
		if (!lost.signal.aborted && readHolder(path)?.hold !== hold) lost.abort(lockLost(name, undefined));
	};
	const verify = (): void => {
		look();
		lost.signal.throwIfAborted();
	};
	let result: T;
	try {
		result = await work(controller.signal, { lost: lost.signal, verify });
		look();
	} finally {
		lost.signal.removeEventListener("abort", onLost);
		signal?.removeEventListener("abort", onAbort);
		// What is not given back is found by the next holder: this process is its owner, and it has no heartbeat any more.
		await lock.release().catch(() => {});
		holds.delete(path);
	}
	if (lost.signal.aborted) throw lost.signal.reason;
	return result;
}

/** How long this waiter has seen the same holder without a heartbeat. */
class Watch {
	looks = 0;
	#seen = "";
	#since = 0;

	isOver(holder: Holder): boolean {
		this.looks += 1;
		const now = performance.now();
		const seen = `${holder.hold} ${holder.beat}`;
		if (seen !== this.#seen) {
			this.#seen = seen;
			this.#since = now;
		}
		const state = holder.owner ? ownerState(holder.owner) : "unreadable";
		return now - this.#since >= PATIENCE_MS[state];
	}
}

/** The few calls that proper-lockfile makes, over locks that carry their owner. */
const lockFs = {
	stat: fs.lstat,
	utimes: fs.lutimes,
	mkdir(path: string, done: (error: unknown) => void): void {
		settle(() => take(path, holds.get(path) ?? ""), done);
	},
	rmdir(path: string, done: (error: unknown) => void): void {
		settle(() => giveBack(path, holds.get(path) ?? ""), done);
	},
	rmdirSync(path: string): void {
		giveBack(path, holds.get(path) ?? "");
	},
};

function settle(work: () => void, done: (error: unknown) => void): void {
	try {
		work();
	} catch (error) {
		done(error);
		return;
	}
	done(null);
}

/** Different names have different file names, on file systems that fold case as well. */
function toFileName(name: string): string {
	const slug = name
		.toLowerCase()
		.replaceAll(/[^a-z0-9]+/g, "-")
		.slice(0, 40);
	const hash = createHash("sha256").update(Buffer.from(name, "utf16le")).digest("hex").slice(0, 32);
	return `${slug}-${hash}`;
}

function timedOut(name: string, timeoutMs: number, holderPid: number | undefined): SandboxError<"lock_timeout"> {
	const holder = holderPid === undefined ? "another process" : `process ${holderPid}`;
	return new SandboxError("lock_timeout", `lock ${name}: ${holder} has held it for the ${timeoutMs} ms of the wait`, {
		details: { lock: name, timeoutMs, ...(holderPid === undefined ? {} : { holderPid }) },
		hint: "repeat the call when that process is done",
	});
}

function lockLost(name: string, cause: unknown): SandboxError<"lock_lost"> {
	return new SandboxError("lock_lost", `lock ${name}: it was lost while it was held`, {
		details: { lock: name },
		hint: "repeat the call",
		cause,
	});
}

function unusable(directory: string, error: unknown): unknown {
	if (error instanceof SandboxError) return error;
	const reason = messageOf(error);
	return new SandboxError("workspace_unusable", `locks in ${directory}: ${reason}`, {
		details: { path: directory, reason },
		cause: error,
	});
}

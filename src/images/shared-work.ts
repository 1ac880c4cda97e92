/** Work that several callers wait for and that is done once: builds, pulls. */
import { throwIfAborted } from "../primitives/abort.js";
import type { Progress, ProgressSink } from "../primitives/progress.js";

export interface WaitOptions {
	readonly signal?: AbortSignal | undefined;
	readonly onProgress?: ProgressSink | undefined;
}

interface Shared<T> {
	readonly done: Promise<T>;
	readonly controller: AbortController;
	readonly listeners: Set<ProgressSink>;
	waiting: number;
	last: Progress | undefined;
}

/**
 * Callers that ask for the same key while its work is under way share it, its progress and its failure.
 * A caller whose signal aborts leaves alone; the work itself is aborted when the last one has left.
 */
export class SharedWork<T> {
	readonly #running = new Map<string, Shared<T>>();

	async run(
		key: string,
		work: (signal: AbortSignal, onProgress: ProgressSink) => Promise<T>,
		{ signal, onProgress }: WaitOptions = {},
	): Promise<T> {
		throwIfAborted(signal);
		const shared = this.#running.get(key) ?? this.#start(key, work);
		// One listener a caller, though two callers may hand in the same function.
		const listener: ProgressSink | undefined = onProgress && ((progress) => onProgress(progress));
		shared.waiting += 1;
		if (listener) {
			shared.listeners.add(listener);
			if (shared.last) listener(shared.last);
		}
		let leave: (() => void) | undefined;
		try {
			return await new Promise<T>((resolve, reject) => {
				leave = () => reject(signal?.reason);
				signal?.addEventListener("abort", leave, { once: true });
				shared.done.then(resolve, reject);
			});
		} finally {
			if (leave) signal?.removeEventListener("abort", leave);
			if (listener) shared.listeners.delete(listener);
			shared.waiting -= 1;
			if (shared.waiting === 0 && this.#running.get(key) === shared) {
				this.#running.delete(key);
				shared.controller.abort(signal?.reason);
			}
		}
	}

	#start(key: string, work: (signal: AbortSignal, onProgress: ProgressSink) => Promise<T>): Shared<T> {
		const controller = new AbortController();
		const listeners = new Set<ProgressSink>();
		const tell = (progress: Progress): void => {
			shared.last = progress;
			for (const listener of listeners) listener(progress);
		};
		const shared: Shared<T> = {
			// Begins in a later turn, when the record is complete.
			done: Promise.resolve().then(() => work(controller.signal, tell)),
			controller,
			listeners,
			waiting: 0,
			last: undefined,
		};
		const forget = (): void => {
			if (this.#running.get(key) === shared) this.#running.delete(key);
		};
		shared.done.then(forget, forget);
		this.#running.set(key, shared);
		return shared;
	}
}

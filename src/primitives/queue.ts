/** One at a time for a key, in this process, in the order of the calls. */
import { raceAbort, throwIfAborted } from "./abort.js";

export class KeyedQueue {
	readonly #tails = new Map<string, Promise<void>>();

	/** Runs `work` after all earlier work for `key` has settled. A caller that aborts while waiting leaves the queue. */
	async run<T>(key: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
		throwIfAborted(signal);
		const before = this.#tails.get(key) ?? Promise.resolve();
		let release: () => void = () => {};
		const mine = new Promise<void>((resolve) => {
			release = resolve;
		});
		const tail = before.then(() => mine);
		this.#tails.set(key, tail);
		try {
			await raceAbort(before, signal);
			return await work();
		} finally {
			release();
			if (this.#tails.get(key) === tail) this.#tails.delete(key);
		}
	}

	/** How many keys have work running or waiting. */
	get size(): number {
		return this.#tails.size;
	}
}

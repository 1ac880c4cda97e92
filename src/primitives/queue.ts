/** One at a time for a key, in this process, in the order of the calls. */
import { raceAbort, throwIfAborted } from "./abort.ts";

export class KeyedQueue {
	readonly #tails = new Map<string, Promise<void>>();

	/** Runs `work` after all earlier work for `key` has settled. A caller that aborts while waiting leaves the queue. */
	async run<T>(key: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
		throwIfAborted(signal);
		const before = this.#tails.get(key);
		let release: () => void = () => {};
		const mine = new Promise<void>((resolve) => {
			release = resolve;
		});
		const tail = before ? before.then(() => mine) : mine;
		this.#tails.set(key, tail);
		try {
			if (before) await raceAbort(before, signal);
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

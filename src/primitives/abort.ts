/** Joining time limits and signals, and waiting with an end. */

/** Throws the signal's own reason if it is aborted. */
export function throwIfAborted(signal: AbortSignal | undefined): void {
	if (signal?.aborted) throw signal.reason;
}

/** Waits `ms`; rejects with the signal's own reason when it aborts. `keepAlive: false` lets the process end meanwhile. */
export function sleep(ms: number, signal?: AbortSignal, options: { keepAlive?: boolean } = {}): Promise<void> {
	return new Promise((resolve, reject) => {
		if (signal?.aborted) {
			reject(signal.reason);
			return;
		}
		const timer = setTimeout(done, ms);
		if (options.keepAlive === false) timer.unref();
		function done(): void {
			signal?.removeEventListener("abort", aborted);
			resolve();
		}
		function aborted(): void {
			clearTimeout(timer);
			reject(signal?.reason);
		}
		signal?.addEventListener("abort", aborted, { once: true });
	});
}

/** The promise, or a rejection with the signal's reason as soon as it aborts. The promise's own later failure is swallowed. */
export function raceAbort<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
	if (!signal) return promise;
	return new Promise<T>((resolve, reject) => {
		const aborted = (): void => reject(signal.reason);
		if (signal.aborted) {
			promise.catch(() => {});
			reject(signal.reason);
			return;
		}
		signal.addEventListener("abort", aborted, { once: true });
		promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", aborted));
	});
}

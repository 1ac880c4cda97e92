/** Joining time limits and signals, and waiting with an end. */
import { SandboxError } from "./errors.js";

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

/**
 * Runs `work` under a signal that aborts when the caller's signal does or the time is up.
 * A time-out rejects with code `timeout`; the caller's abort with the caller's reason. Leaves no timer or listener.
 */
export async function withTimeout<T>(
	what: string,
	timeoutMs: number,
	signal: AbortSignal | undefined,
	work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
	throwIfAborted(signal);
	const controller = new AbortController();
	const forward = (): void => controller.abort(signal?.reason);
	signal?.addEventListener("abort", forward, { once: true });
	const timer = setTimeout(
		() =>
			controller.abort(
				new SandboxError("timeout", `${what}: no end within ${timeoutMs} ms`, { details: { what, timeoutMs } }),
			),
		timeoutMs,
	);
	try {
		return await raceAbort(work(controller.signal), controller.signal);
	} finally {
		clearTimeout(timer);
		signal?.removeEventListener("abort", forward);
	}
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

/** Signals from outside, as the reason for an abort. */
import type { Signals } from "./io.js";
import { ENDING_SIGNALS, type EndingSignal } from "./statuses.js";

/** A signal told the program to end. */
export class Interrupted extends Error {
	override readonly name = "Interrupted";
	readonly signal: EndingSignal;

	constructor(signal: EndingSignal) {
		super(`ended by ${signal}`);
		this.signal = signal;
	}
}

/**
 * Tells of the first of the ending signals; a second one finds the system's own handling, which ends the process at once.
 * Gives what ends the listening.
 */
export function listenForSignals(signals: Signals, tell: (interrupted: Interrupted) => void): () => void {
	const listeners = ENDING_SIGNALS.map((signal) => ({
		signal,
		listener: () => {
			dispose();
			tell(new Interrupted(signal));
		},
	}));
	function dispose(): void {
		for (const { signal, listener } of listeners) signals.off(signal, listener);
	}
	for (const { signal, listener } of listeners) signals.once(signal, listener);
	return dispose;
}

/** The work's outcome, or at once the signal's reason, for work that cannot be given a signal. It may then go on by itself. */
export function orInterrupted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
	return new Promise((resolve, reject) => {
		const abort = (): void => reject(signal.reason);
		if (signal.aborted) abort();
		signal.addEventListener("abort", abort, { once: true });
		work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
	});
}

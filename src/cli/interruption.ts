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

/** A signal that comes again so soon is the same one: timeout(1) tells its child and then the whole group. */
const SAME_SIGNAL_MS = 250;

/**
 * Tells of the first of the ending signals, and of a further one that the program is to be ended at once.
 *
 * The listeners stay for as long as the process does: a library that finds itself the only listener of a signal would end the
 * process before anything is taken back.
 */
export function listenForSignals(
	signals: Signals,
	tell: (interrupted: Interrupted) => void,
	endAtOnce: (signal: EndingSignal) => void,
	nowMs: () => number = Date.now,
): void {
	let firstAtMs: number | undefined;
	for (const signal of ENDING_SIGNALS) {
		signals.on(signal, () => {
			if (firstAtMs === undefined) {
				firstAtMs = nowMs();
				tell(new Interrupted(signal));
			} else if (nowMs() - firstAtMs >= SAME_SIGNAL_MS) {
				endAtOnce(signal);
			}
		});
	}
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

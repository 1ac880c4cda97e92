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

/** Signals from outside, as one abort signal that every call of the library is given. */
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

export interface Interruption {
	readonly signal: AbortSignal;
	dispose(): void;
}

/** Listens for the first of the ending signals; a second one finds the system's own handling, which ends the process at once. */
export function listenForSignals(signals: Signals): Interruption {
	const controller = new AbortController();
	const listeners = ENDING_SIGNALS.map((signal) => ({
		signal,
		listener: () => {
			dispose();
			controller.abort(new Interrupted(signal));
		},
	}));
	function dispose(): void {
		for (const { signal, listener } of listeners) signals.off(signal, listener);
	}
	for (const { signal, listener } of listeners) signals.once(signal, listener);
	return { signal: controller.signal, dispose };
}

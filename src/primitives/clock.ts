/** Time, as something that can be handed in. */
import { invalid } from "./checks.js";

export interface Clock {
	/** Milliseconds since the epoch, as `Date.now()`. */
	nowMs(): number;
}

export const systemClock: Clock = { nowMs: () => Date.now() };

/** The latest time that a `Date` can hold. */
const MAX_MS = 8_640_000_000_000_000;

/** A clock that gives whole milliseconds; what is no clock, or gives what is no time, is refused. */
export function toWholeClock(clock: unknown): Clock {
	if (clock === undefined) return systemClock;
	if (typeof clock !== "object" || clock === null || !("nowMs" in clock) || typeof clock.nowMs !== "function") {
		throw invalid("clock", "an object with a method nowMs()", clock);
	}
	const given = clock as Clock;
	return {
		nowMs: () => {
			const now = given.nowMs();
			if (typeof now !== "number" || !(now >= 0 && now <= MAX_MS))
				throw invalid("clock.nowMs()", `a number from 0 to ${MAX_MS}`, now);
			return Math.floor(now);
		},
	};
}

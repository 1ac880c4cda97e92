/** Time, as something that can be handed in. */
export interface Clock {
	/** Milliseconds since the epoch, as `Date.now()`. */
	nowMs(): number;
}

export const systemClock: Clock = { nowMs: () => Date.now() };

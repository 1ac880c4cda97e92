/** Cutting long synchronous work into slices, so that the event loop gets its turn. */

const SLICE_MS = 8;

export class TimeSlice {
	readonly #between: () => void;
	#end = performance.now() + SLICE_MS;

	/** `between` runs after every slice; what it throws ends the work. */
	constructor(between: () => void = () => {}) {
		this.#between = between;
	}

	/** Whether the work has gone on for long enough. */
	isOver(): boolean {
		return performance.now() >= this.#end;
	}

	/** Lets everything else have its turn, then begins a new slice. */
	async next(): Promise<void> {
		await new Promise<void>((resolve) => setImmediate(resolve));
		this.#between();
		this.#end = performance.now() + SLICE_MS;
	}
}

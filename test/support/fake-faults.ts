/** Failing and freezing at chosen calls, as an engine or a process does that dies at a bad moment. */
import { raceAbort } from "../../src/primitives/abort.js";
import { SandboxError } from "../../src/primitives/errors.js";

/** Which call: the `nth` (1 unless given) of the calls of `method` (of any, unless given) from now on. */
export interface FaultPoint {
	readonly method?: string;
	readonly nth?: number;
	/** Before anything happens, or after it has happened and before the caller hears of it. `before` unless given. */
	readonly when?: "before" | "after";
	/** How many of the calls from the `nth` on; 1 unless given. */
	readonly times?: number;
}

/** A call that hangs until it is released or its signal aborts. */
export interface Freeze {
	/** Resolves when the call has come to the point. */
	readonly reached: Promise<void>;
	release(): void;
}

interface Fault {
	readonly point: FaultPoint;
	seen: number;
	readonly strike: (signal: AbortSignal | undefined) => Promise<void>;
}

export class Faults {
	readonly #faults: Fault[] = [];

	failAt(point: FaultPoint, error: unknown = broken()): void {
		this.#faults.push({ point, seen: 0, strike: () => Promise.reject(error) });
	}

	freezeAt(point: FaultPoint): Freeze {
		let tell: () => void = () => {};
		let release: () => void = () => {};
		const reached = new Promise<void>((resolve) => {
			tell = resolve;
		});
		const released = new Promise<void>((resolve) => {
			release = resolve;
		});
		const strike = (signal: AbortSignal | undefined): Promise<void> => {
			tell();
			return raceAbort(released, signal);
		};
		this.#faults.push({ point, seen: 0, strike });
		return { reached, release };
	}

	clear(): void {
		this.#faults.length = 0;
	}

	/** Called around each call of the engine. */
	async pass(method: string, when: "before" | "after", signal: AbortSignal | undefined): Promise<void> {
		for (const fault of this.#faults) {
			const { point } = fault;
			if ((point.when ?? "before") !== when || (point.method !== undefined && point.method !== method)) continue;
			fault.seen += 1;
			const first = point.nth ?? 1;
			if (fault.seen >= first && fault.seen < first + (point.times ?? 1)) await fault.strike(signal);
		}
	}
}

function broken(): SandboxError {
	return new SandboxError("engine_unavailable", "no engine answers at fake://: it was told to fail here", {
		details: { address: "fake://", reason: "closed" },
	});
}

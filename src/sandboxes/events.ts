/** What happened, for whoever wants to know: events are told, never asked. */
import type { Reason } from "./reasons.js";

/** What a `create()` did. */
export type Outcome = "created" | "served" | "started" | "rebuilt" | "replaced";

export type SandboxEvent =
	| { readonly type: Outcome; readonly name: string; readonly id: string; readonly reasons: readonly Reason[] }
	| { readonly type: "stopped"; readonly name: string; readonly id: string }
	| { readonly type: "removed"; readonly name: string }
	/** Other containers of ours stood under this name; they were superseded by the one in use. */
	| { readonly type: "superseded"; readonly name: string; readonly ids: readonly string[] }
	| {
			readonly type: "warning";
			/** `libc_changed`: native modules of the workspace were built for another libc. `engine`: the engine's own warning. `cleanup`: something could not be tidied up now. */
			readonly code: "libc_changed" | "engine" | "cleanup";
			readonly name: string;
			readonly message: string;
			readonly files?: readonly string[];
	  }
	/** The root had lost its id and got a new one: containers made before are no longer known as its own. */
	| { readonly type: "root_renewed"; readonly root: string }
	/** The ledger was damaged, set aside and rebuilt. */
	| { readonly type: "ledger_rebuilt"; readonly setAside: string | undefined; readonly problem: string };

export type EventSink = (event: SandboxEvent) => void;

/** The sink, made harmless: what it throws is dropped. */
export function toSafeSink(sink: EventSink | undefined): EventSink {
	if (!sink) return () => {};
	return (event) => {
		try {
			sink(event);
		} catch {
			// A listener's fault is not the sandbox's.
		}
	};
}

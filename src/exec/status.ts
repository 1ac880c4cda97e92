/** The status of an exec whose stream has ended. */
import type { Engine, ExecRecord } from "../engine/engine.js";
import { sleep } from "../primitives/abort.js";
import { isSandboxError } from "../primitives/errors.js";

/** How long an exec whose stream has ended may take to have a status. */
const STATUS_WAITS_MS = [0, 1, 2, 5, 10, 20, 50, 100, 200, 400, 800, 1600, 3200];

/** The exec's record once it has a status; `"gone"` when the engine has forgotten it, which it does when the container ends. */
export async function statusOf(
	engine: Engine,
	execId: string,
	isGivenUp: () => boolean = () => false,
): Promise<ExecRecord | "gone" | undefined> {
	for (const wait of STATUS_WAITS_MS) {
		if (wait > 0) await sleep(wait);
		try {
			const record = await engine.inspectExec(execId);
			if (!record.running) return record;
		} catch (error) {
			if (!isSandboxError(error, "engine_failed")) return undefined;
			if (error.details.failure === "no_such_exec" || error.details.failure === "no_such_container") return "gone";
		}
		if (isGivenUp()) return undefined;
	}
	return undefined;
}

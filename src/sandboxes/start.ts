/** Starts a container and sees that it runs: the engine calls a start successful whose main process ends in the next moment. */
import { SandboxError } from "../primitives/errors.js";
import type { Context } from "./context.js";

export async function startAndCheck(context: Context, name: string, id: string): Promise<void> {
	await context.engine.startContainer(id);
	const record = await context.engine.inspectContainer(id);
	if (record?.state === "running") return;
	const end = record ? `its main process ended at once with status ${record.exitCode}` : "it was removed meanwhile";
	throw new SandboxError("engine_failed", `sandbox ${name}: its container does not stay up: ${end}`, {
		details: { status: 0, failure: record ? "other" : "no_such_container", call: "start" },
		hint: "the image needs sh and sleep",
	});
}

/** Finds out what became of the container when a command's end was not told. */
import type { ContainerRecord, Engine } from "../engine/engine.js";
import { sleep } from "../primitives/abort.js";
import { isSandboxError, SandboxError } from "../primitives/errors.js";
import type { CommandTarget, LostProcess } from "./starter.js";

/** A container that is being stopped is still called running for a moment after its processes were killed. */
const SETTLE_WAITS_MS = [0, 20, 50, 100, 200, 400, 800];

/** The output so far, as text, for the details of an error. */
export interface OutputSoFar {
	readonly stdout: string;
	readonly stderr: string;
}

/** Why the end of a command cannot be told, in the words of this library: what stopped the container, or that nobody knows. */
export async function fateOf(
	engine: Engine,
	target: CommandTarget,
	end: LostProcess,
	output: OutputSoFar,
): Promise<SandboxError> {
	let record: ContainerRecord | undefined;
	for (const wait of SETTLE_WAITS_MS) {
		if (wait > 0) await sleep(wait);
		try {
			record = await engine.inspectContainer(target.id);
		} catch (error) {
			return lost(target, output, "the engine can no longer be asked", error);
		}
		if (!record || record.state === "removing") return gone(target, output, end.cause);
		if (record.state !== "running") return stopped(target, record.state, output, end.cause);
		if (end.execGone) return stopped(target, "restarted", output, end.cause);
		if (end.watcherKilled === "told") break;
	}
	const what = end.watcherKilled
		? "the shell that waits for it was killed (kill -9 $PPID does that)"
		: "the connection to it broke";
	return lost(target, output, what, end.cause);
}

/** An engine's refusal to run something in this container, in the words of this library; any other error as it is. */
export async function refusalOf(engine: Engine, target: CommandTarget, error: unknown): Promise<unknown> {
	if (!isSandboxError(error, "engine_failed")) return error;
	switch (error.details.failure) {
		case "no_such_container":
			return gone(target, undefined, error);
		case "paused":
			return stopped(target, "paused", undefined, error);
		case "not_running":
		case "removal_in_progress": {
			const record = await engine.inspectContainer(target.id).catch(() => undefined);
			if (!record || record.state === "removing") return gone(target, undefined, error);
			return stopped(target, record.state, undefined, error);
		}
		default:
			return error;
	}
}

function gone(target: CommandTarget, output: OutputSoFar | undefined, cause: unknown): SandboxError<"gone"> {
	return new SandboxError("gone", `running a command in ${target.name}: its container no longer exists`, {
		details: { name: target.name, id: target.id, ...output },
		hint: `make it again over its workspace, unless it was removed: create("${target.name}"), or sbx create ${target.name}`,
		cause,
	});
}

function stopped(
	target: CommandTarget,
	state: string,
	output: OutputSoFar | undefined,
	cause: unknown,
): SandboxError<"stopped"> {
	const what =
		state === "paused"
			? "it is paused"
			: state === "restarted"
				? "it was stopped and started again meanwhile"
				: `it does not run (${state})`;
	return new SandboxError("stopped", `running a command in ${target.name}: ${what}`, {
		details: { name: target.name, id: target.id, state, ...output },
		hint: `start it again: create("${target.name}"), or sbx create ${target.name}`,
		cause,
	});
}

/** What became of the command cannot be known. */
export function lost(
	target: CommandTarget,
	output: OutputSoFar | undefined,
	what: string,
	cause: unknown,
): SandboxError<"exec_lost"> {
	return new SandboxError("exec_lost", `running a command in ${target.name}: its end is not known, as ${what}`, {
		details: { name: target.name, ...output },
		hint: "look at what the command did before running it again",
		cause,
	});
}

/**
 * Carries a decision out: the ledger's row first, then one engine call a step. Judges nothing.
 * Runs while the name's lock is held; `signal` aborts when the caller does or the lock is lost, and no engine call follows then.
 */
import { isSandboxError, messageOf, SandboxError } from "../primitives/errors.js";
import type { Context } from "./context.js";
import type { Decision, ObservedContainer } from "./decide.js";
import type { Outcome } from "./events.js";
import { makeSandbox } from "./make.js";
import { toContainerName } from "./names.js";
import type { Reason } from "./reasons.js";
import { rebuild } from "./rebuild.js";
import { removeAllOf } from "./remove.js";
import type { ResolvedRequest } from "./request.js";
import { settle } from "./settle.js";
import { startAndCheck } from "./start.js";

export interface Applied {
	readonly id: string;
	readonly outcome: Outcome;
	readonly reasons: readonly Reason[];
}

export async function apply(
	context: Context,
	wanted: ResolvedRequest,
	decision: Decision,
	signal: AbortSignal,
): Promise<Applied> {
	const { name } = wanted.request;
	const { container, superseded, reasons } = decision;
	if (superseded.length > 0) context.emit({ type: "superseded", name, ids: superseded.map((other) => other.id) });
	switch (decision.action) {
		case "refuse":
			throw conflict(context, name, decision);
		case "create":
			return { id: await makeSandbox(context, wanted, signal), outcome: "created", reasons };
		case "replace": {
			const existed = await clear(context, wanted, decision);
			return { id: await makeSandbox(context, wanted, signal), outcome: existed ? "replaced" : "created", reasons };
		}
		case "rebuild":
			return { id: await rebuild(context, wanted, needed(container), superseded, signal), outcome: "rebuilt", reasons };
		case "serve":
			await settle(context, wanted, needed(container), superseded);
			return { id: needed(container).id, outcome: "served", reasons };
		case "start": {
			const found = needed(container);
			try {
				await bringUp(context, name, found);
			} catch (error) {
				if (!isSandboxError(error, "engine_failed")) throw error;
				const why: Reason[] = [{ kind: "start", problem: messageOf(error) }];
				return { id: await rebuild(context, wanted, found, superseded, signal), outcome: "rebuilt", reasons: why };
			}
			await settle(context, wanted, found, superseded);
			return { id: found.id, outcome: "started", reasons };
		}
	}
}

/** The error for a name that something foreign holds. */
export function conflict(context: Context, name: string, decision: Decision): SandboxError<"conflict"> {
	const { foreign } = decision;
	const containerName = foreign?.containerName ?? toContainerName(context.fleet.prefix, name);
	return new SandboxError(
		"conflict",
		`sandbox ${name}: the container name ${containerName} is held by ${foreign?.owner ?? "something else"}; it was left as it is`,
		{
			details: { name, containerName, ...(foreign ? { containerId: foreign.id } : {}) },
			hint: "choose another name or prefix, or remove that container yourself",
		},
	);
}

async function bringUp(context: Context, name: string, container: ObservedContainer): Promise<void> {
	if (container.state === "paused") await context.engine.unpauseContainer(container.id);
	else await startAndCheck(context, name, container.id);
}

/** Removes container and workspace; whether there was anything. */
async function clear(context: Context, wanted: ResolvedRequest, decision: Decision): Promise<boolean> {
	const ours = decision.container ? [decision.container, ...decision.superseded] : [];
	return removeAllOf(context, wanted.request.name, ours);
}

function needed(container: ObservedContainer | undefined): ObservedContainer {
	if (!container) throw new TypeError("a decision about a container names none");
	return container;
}

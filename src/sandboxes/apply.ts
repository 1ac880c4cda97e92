/**
 * Carries a decision out: the ledger's row first, then one engine call a step. Judges nothing.
 * Runs while the name's lock is held, on one look at the world: when that has changed, the ledger refuses the next step.
 */
import { isSandboxError, messageOf, SandboxError } from "../primitives/errors.js";
import { toOwnerIds } from "./container-spec.js";
import { type Context, keyOf } from "./context.js";
import type { Decision, ObservedContainer } from "./decide.js";
import type { Outcome } from "./events.js";
import type { Guard, Look } from "./look.js";
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
	/** Whether the workspace was made by this call, and so was empty. */
	readonly fresh: boolean;
}

export async function apply(
	context: Context,
	wanted: ResolvedRequest,
	decision: Decision,
	seen: Look,
	guard: Guard,
): Promise<Applied> {
	const { name } = wanted.request;
	const { container, superseded, reasons } = decision;
	const { stored } = seen;
	if (superseded.length > 0) context.emit({ type: "superseded", name, ids: superseded.map((other) => other.id) });
	switch (decision.action) {
		case "refuse":
			throw conflict(context, name, decision);
		case "create":
			return { ...(await makeSandbox(context, wanted, stored, guard)), outcome: "created", reasons };
		case "replace": {
			const existed = await removeAllOf(context, name, seen, guard);
			const cleared = await context.ledger.get(keyOf(context, name));
			const made = await makeSandbox(context, wanted, cleared, guard);
			return { ...made, outcome: existed ? "replaced" : "created", reasons };
		}
		case "rebuild": {
			const id = await rebuild(context, wanted, needed(container), superseded, stored, guard);
			return { id, outcome: "rebuilt", reasons, fresh: false };
		}
		case "serve":
			await settle(context, wanted, needed(container), superseded, stored);
			return { id: needed(container).id, outcome: "served", reasons, fresh: false };
		case "start": {
			const found = needed(container);
			try {
				await bringUp(context, name, found);
			} catch (error) {
				if (!isSandboxError(error, "engine_failed")) throw error;
				const why: Reason[] = [{ kind: "start", problem: messageOf(error) }];
				const id = await rebuild(context, wanted, found, superseded, stored, guard);
				return { id, outcome: "rebuilt", reasons: why, fresh: false };
			}
			await settle(context, wanted, found, superseded, stored);
			return { id: found.id, outcome: "started", reasons, fresh: false };
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
	if (container.state === "paused") return context.engine.unpauseContainer(container.id);
	if (container.recorded.ok) {
		// One that was made and never started may be of another user than those who used the workspace before.
		const { workspaceId, shape } = container.recorded.recorded;
		await context.workspaces.give(workspaceId, toOwnerIds(shape.user));
	}
	await startAndCheck(context, name, container.id);
}

function needed(container: ObservedContainer | undefined): ObservedContainer {
	if (!container) throw new TypeError("a decision about a container names none");
	return container;
}

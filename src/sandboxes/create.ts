/** The stages of `create()`: resolve the image, look, decide; and where that does not serve, once more under the name's lock. */
import type { ContainerRecord } from "../engine/engine.js";
import { sleep } from "../primitives/abort.js";
import { type Applied, apply, conflict } from "./apply.js";
import { type Context, findRow, keyOf } from "./context.js";
import { type Decision, decide, type ObservedContainer } from "./decide.js";
import { LABEL } from "./labels.js";
import { type Guard, look } from "./look.js";
import { observeByName } from "./observe.js";
import { isEnding } from "./operation.js";
import { isWorthAnotherLook, removeAllOf } from "./remove.js";
import type { Request, ResolvedRequest } from "./request.js";
import { Sandbox } from "./sandbox.js";
import { isSettled } from "./settle.js";

/** How long a name is waited for that another process holds. Its work may include a slow stop. */
export const NAME_LOCK_TIMEOUT_MS = 10 * 60_000;
/** How long the engine may hold a name for a create that nobody can see yet. */
const IN_FLIGHT_TIMEOUT_MS = 30_000;

export async function createSandbox(context: Context, request: Request): Promise<Sandbox> {
	const { signal, name } = request;
	const [image, seen] = await Promise.all([
		context.images.resolve(request.image, { signal, onProgress: request.onProgress }),
		observeByName(context, name, signal),
	]);
	const wanted: ResolvedRequest = {
		request,
		shape: { ...request.shape, imageId: image.imageId },
		image: image.reference,
	};
	const decision = decide({ shape: wanted.shape, replace: request.replace }, seen.observed, context.clock.nowMs());
	if (decision.action === "refuse") throw conflict(context, name, decision);
	if (decision.action === "serve" && decision.container && seen.record) {
		const row = await findRow(context, name);
		if (isSettled(row, decision.container, request.stated)) {
			return toHandle(context, seen.record, decision.container, {
				id: seen.record.id,
				outcome: "served",
				reasons: [],
				fresh: false,
			});
		}
	}
	signal?.throwIfAborted();
	const { applied, record, container } = await context.locks.hold(
		keyOf(context, name),
		(both, lock) => lookAndApply(context, wanted, { signal: both, lock }),
		{ timeoutMs: NAME_LOCK_TIMEOUT_MS, ...(signal ? { signal } : {}) },
	);
	context.emit({ type: applied.outcome, name, id: applied.id, reasons: applied.reasons });
	return toHandle(context, record, container, applied);
}

/** What `create()` would do now. Looks, and does nothing. */
export async function planSandbox(context: Context, request: Request): Promise<Decision> {
	const [image, seen] = await Promise.all([
		context.images.find(request.image, { signal: request.signal }),
		look(context, request.name, request.signal),
	]);
	const shape = { ...request.shape, imageId: image?.imageId ?? "an image that is not here yet" };
	// What is being removed counts as gone: create() ends the removal first.
	const observed = isEnding(seen.stored?.row) ? { ...seen.observed, ours: [] } : seen.observed;
	const decision = decide({ shape, replace: request.replace }, observed, context.clock.nowMs());
	if (decision.action === "refuse") throw conflict(context, request.name, decision);
	return decision;
}

interface Result {
	readonly applied: Applied;
	readonly record: ContainerRecord;
	readonly container: ObservedContainer;
}

/** Looks, decides and applies; looks again when the world changed in between, for a bounded time. */
async function lookAndApply(context: Context, wanted: ResolvedRequest, guard: Guard): Promise<Result> {
	const { name, replace } = wanted.request;
	const deadline = performance.now() + IN_FLIGHT_TIMEOUT_MS;
	for (let pauseMs = 10; ; pauseMs = Math.min(pauseMs * 2, 500)) {
		guard.signal.throwIfAborted();
		guard.lock.verify();
		try {
			const seen = await look(context, name, guard.signal);
			guard.signal.throwIfAborted();
			if (isEnding(seen.stored?.row)) {
				// A removal that did not come to its end; what it was to delete is not used again.
				await removeAllOf(context, name, seen, guard);
				continue;
			}
			const decision = decide({ shape: wanted.shape, replace }, seen.observed, context.clock.nowMs());
			const applied = await apply(context, wanted, decision, seen, guard);
			const after = await observeByName(context, name);
			const container = after.observed.ours.find((candidate) => candidate.id === applied.id);
			if (after.record && container) return { applied, record: after.record, container };
		} catch (error) {
			if (!isWorthAnotherLook(error) || performance.now() > deadline) throw error;
		}
		await sleep(pauseMs, guard.signal);
	}
}

/** The handle of a container whose record was read. */
export function toHandle(
	context: Context,
	record: ContainerRecord,
	container: ObservedContainer,
	applied: Applied,
): Sandbox {
	if (!container.recorded.ok) throw new TypeError("a handle needs readable labels");
	return new Sandbox(context, {
		id: record.id,
		name: record.labels[LABEL.name] ?? "",
		imageId: record.imageId,
		ports: record.ports,
		containerEnv: record.env,
		recorded: container.recorded.recorded,
		outcome: applied.outcome,
		reasons: applied.reasons,
		fresh: applied.fresh,
	});
}

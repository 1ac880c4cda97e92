/** Makes the container of a sandbox, without starting it: directories first, then accounts, network, container. */
import { SandboxError } from "../primitives/errors.js";
import { mergeAccounts } from "../workspace/accounts.js";
import { toContainerSpec, toOwnerIds } from "./container-spec.js";
import type { Context } from "./context.js";
import { HOME_TARGET, USER_NAME } from "./defaults.js";
import { toLabels } from "./labels.js";
import { ensureNetwork } from "./network.js";
import type { Operation } from "./operation.js";
import type { Adjustable, Shape } from "./shape.js";

/** What a new container is to be. */
export interface Plan {
	readonly name: string;
	readonly containerName: string;
	readonly shape: Shape;
	/** The reference by which the image was asked for. */
	readonly image: string;
	readonly adjustable: Adjustable;
}

/** Makes the container and records it in the row as `created`. Untrusted code has not run yet. */
export async function buildContainer(
	context: Context,
	operation: Operation,
	plan: Plan,
	signal: AbortSignal,
): Promise<string> {
	const { name, shape } = plan;
	const { workspaceId } = operation.row;
	const owner = toOwnerIds(shape.user);
	await context.workspaces.ensure(workspaceId, owner);
	await context.workspaces.link(context.fleet.prefix, name, workspaceId);
	const facts = await context.images.facts(shape.imageId);
	if (!facts.hasShell) {
		throw new SandboxError(
			"unsupported",
			`sandbox ${name}: the image ${plan.image} has no sh, which a sandbox's main process needs`,
			{
				details: { what: "an image without sh" },
				hint: "use an image with a shell, such as debian:bookworm-slim",
			},
		);
	}
	const accounts =
		shape.user === "root"
			? undefined
			: await context.workspaces.writeAccounts(
					workspaceId,
					mergeAccounts(facts, { ...owner, userName: USER_NAME, home: HOME_TARGET, shell: "/bin/sh" }),
				);
	const networkName = shape.network === "none" ? "none" : await ensureNetwork(context);
	signal.throwIfAborted();
	const createdAtMs = context.clock.nowMs();
	const { id, warnings } = await context.engine.createContainer(
		toContainerSpec({
			containerName: plan.containerName,
			sandboxName: name,
			shape,
			stopGraceMs: plan.adjustable.stopGraceMs,
			labels: toLabels(context.fleet, name, {
				operationKey: operation.key,
				epoch: operation.epoch,
				workspaceId,
				createdAtMs,
				image: plan.image,
				libc: facts.libc,
				stopGraceMs: plan.adjustable.stopGraceMs,
				labels: plan.adjustable.labels,
				shape,
			}),
			networkName,
			workspacePath: context.workspaces.workspacePath(workspaceId),
			homePath: context.workspaces.homePath(workspaceId),
			accounts,
		}),
	);
	for (const message of warnings) context.emit({ type: "warning", code: "engine", name, message });
	await operation.advance("created", { containerId: id, libc: facts.libc, createdAtMs });
	return id;
}

/** Makes the container of a sandbox, without starting it: accounts first, then network, container. Its workspace is there. */
import { SandboxError } from "../primitives/errors.js";
import { mergeAccounts } from "../workspace/accounts.js";
import { toContainerSpec, toOwnerIds } from "./container-spec.js";
import type { Context } from "./context.js";
import { HOME_TARGET, USER_NAME } from "./defaults.js";
import { toLabels } from "./labels.js";
import type { Guard } from "./look.js";
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
	guard: Guard,
): Promise<string> {
	const { name, shape } = plan;
	const { workspaceId } = operation.row;
	const facts = await context.images.facts(shape.imageId);
	if (!facts.hasShell) throw noShell(plan);
	await context.workspaces.link(context.fleet.prefix, name, workspaceId);
	const user = { ...toOwnerIds(shape.user), userName: USER_NAME, home: HOME_TARGET, shell: "/bin/sh" };
	const accounts =
		shape.user === "root"
			? undefined
			: await context.workspaces.writeAccounts(
					workspaceId,
					mergeAccounts(facts, user),
					toAccountsVersion(operation.key),
				);
	const networkName = shape.network === "none" ? "none" : await ensureNetwork(context);
	guard.signal.throwIfAborted();
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

/** The account files of a container, by the operation that made it. */
export function toAccountsVersion(operationKey: string): string {
	return operationKey.slice(0, 18);
}

function noShell({ name, image }: Plan): SandboxError<"unsupported"> {
	return new SandboxError(
		"unsupported",
		`sandbox ${name}: the image ${image} has no sh, which a sandbox's main process needs`,
		{
			details: { what: "an image without sh" },
			hint: "use an image with a shell, such as debian:bookworm-slim",
		},
	);
}

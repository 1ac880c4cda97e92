/** The fleet's own bridge: out to the world, not to one another. One per root and prefix, made when first needed. */
import { isSandboxError } from "../primitives/errors.js";
import type { Context } from "./context.js";
import { fleetLabels } from "./labels.js";
import { toNetworkName } from "./names.js";

const LOCK_TIMEOUT_MS = 60_000;

function networkName(context: Context): string {
	return toNetworkName(context.fleet.prefix, context.fleet.rootId);
}

/** The name of the network, which then exists. */
export async function ensureNetwork(context: Context): Promise<string> {
	const name = networkName(context);
	if (await context.engine.inspectNetwork(name)) return name;
	await context.locks.hold(
		`network ${name}`,
		async () => {
			if (await context.engine.inspectNetwork(name)) return;
			await context.engine.createNetwork({
				name,
				labels: fleetLabels(context.fleet, "network"),
				interContainer: false,
				internal: false,
			});
		},
		{ timeoutMs: LOCK_TIMEOUT_MS },
	);
	return name;
}

/** Takes the network away when no container of the fleet is left, in any state. One that is in use stays. */
export async function removeUnusedNetwork(context: Context): Promise<void> {
	const name = networkName(context);
	const network = await context.engine.inspectNetwork(name);
	if (!network) return;
	await context.locks.hold(
		`network ${name}`,
		async () => {
			if ((await context.engine.listContainers(fleetLabels(context.fleet, "sandbox"))).length > 0) return;
			try {
				await context.engine.removeNetwork(network.id);
			} catch (error) {
				if (!(isSandboxError(error, "engine_failed") && error.details.failure === "network_in_use")) throw error;
			}
		},
		{ timeoutMs: LOCK_TIMEOUT_MS },
	);
}

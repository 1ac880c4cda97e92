/** Names that users choose, and the names on the engine that follow from them. */
import { invalid } from "../primitives/checks.js";

const NAME = /^[a-z0-9][a-z0-9_.-]{0,62}$/;
const PREFIX = /^[a-z0-9][a-z0-9_.-]{0,30}$/;

/** The rule for the names of sandboxes, in words. */
export const NAME_RULE = "1 to 63 characters of a-z, 0-9, dot, dash and underscore, beginning with a letter or digit";

/** The name as it is, or a refusal that states the rule. */
export function parseName(value: unknown): string {
	if (typeof value !== "string" || !NAME.test(value)) throw invalid("name", NAME_RULE, value);
	return value;
}

/** The prefix of a fleet, or a refusal that states the rule. */
export function parsePrefix(value: unknown): string {
	if (typeof value !== "string" || !PREFIX.test(value)) {
		throw invalid(
			"prefix",
			"1 to 31 characters of a-z, 0-9, dot, dash and underscore, beginning with a letter or digit",
			value,
		);
	}
	return value;
}

/** The name of a sandbox's container. */
export function toContainerName(prefix: string, name: string): string {
	return `${prefix}-${name}`;
}

/** The name of a container that is being made while the one it replaces still stands. Capitals: no sandbox can have it. */
export function toNextContainerName(prefix: string, name: string, operationKey: string): string {
	return `${prefix}-${name}_NEXT-${operationKey.slice(0, 12)}`;
}

/** The name of a fleet's own network. */
export function toNetworkName(prefix: string, rootId: string): string {
	return `${prefix}_NET-${rootId.replaceAll("-", "").slice(0, 12)}`;
}

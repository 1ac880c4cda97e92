/** The options that every command takes, before or after its name. */
import { DEFAULT_PREFIX } from "../index.js";
import type { OptionSpec } from "./spec.js";

export interface Globals {
	readonly root?: string;
	readonly prefix?: string;
	readonly engine?: string;
	readonly json?: boolean;
	readonly quiet?: boolean;
}

export const GLOBAL_OPTIONS: readonly OptionSpec[] = [
	{
		flags: "--root <dir>",
		description: "where workspaces and ledger are (SANDBOXES_ROOT; default: the per-user data directory)",
	},
	{ flags: "--prefix <prefix>", description: `which fleet (SANDBOXES_PREFIX; default: ${DEFAULT_PREFIX})` },
	{
		flags: "--engine <address>",
		description: "where the engine is, as unix:///… or tcp://… (default: DOCKER_HOST, docker's context)",
	},
	{ flags: "--json", description: "answer in JSON" },
	{ flags: "--quiet", description: "no progress and no notes on stderr" },
];

/** What was given on the command line, or else in the environment. An empty variable counts as not set. */
export function globalsOf(flags: Globals, env: Readonly<Record<string, string | undefined>>): Globals {
	const root = env["SANDBOXES_ROOT"];
	const prefix = env["SANDBOXES_PREFIX"];
	return { ...(root ? { root } : {}), ...(prefix ? { prefix } : {}), ...flags };
}

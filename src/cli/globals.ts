/** The options that every command takes, before or after its name. */
import type { Command } from "commander";
import { DEFAULT_PREFIX } from "../index.js";

export interface Globals {
	readonly root?: string;
	readonly prefix?: string;
	readonly engine?: string;
	readonly json?: boolean;
	readonly quiet?: boolean;
}

export function addGlobalOptions(command: Command, version: string): Command {
	return command
		.optionsGroup("Global options:")
		.option("--root <dir>", "where workspaces and ledger are (SANDBOXES_ROOT; default: the per-user data directory)")
		.option("--prefix <prefix>", `which fleet (SANDBOXES_PREFIX; default: ${DEFAULT_PREFIX})`)
		.option(
			"--engine <address>",
			"where the engine is, as unix:///… or tcp://… (default: DOCKER_HOST, docker's context)",
		)
		.option("--json", "answer in JSON")
		.option("--quiet", "no progress and no notes on stderr")
		.version(version, "-V, --version", "print the version")
		.helpOption("-h, --help", "print this help");
}

/** What was given before the command's name, after it, or else in the environment. An empty variable counts as not set. */
export function globalsOf(command: Command, env: Readonly<Record<string, string | undefined>>): Globals {
	const root = env["SANDBOXES_ROOT"];
	const prefix = env["SANDBOXES_PREFIX"];
	let given: Globals = command.opts<Globals>();
	for (let parent = command.parent; parent; parent = parent.parent) given = { ...parent.opts<Globals>(), ...given };
	return { ...(root ? { root } : {}), ...(prefix ? { prefix } : {}), ...given };
}

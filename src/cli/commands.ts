/** All commands. */
import { createCommand } from "./commands/create.js";
import { execCommand } from "./commands/exec.js";
import { imagesCommands } from "./commands/images.js";
import { killCommand } from "./commands/kill.js";
import { listCommand } from "./commands/list.js";
import { logsCommand } from "./commands/logs.js";
import { planCommand } from "./commands/plan.js";
import { psCommand } from "./commands/ps.js";
import { removeCommand } from "./commands/remove.js";
import { stopCommand } from "./commands/stop.js";
import { waitCommand } from "./commands/wait.js";
import type { CommandSpec } from "./spec.js";

/** The commands for a caller with this environment. */
export function allCommands(env: Readonly<Record<string, string | undefined>>): readonly CommandSpec[] {
	return [
		createCommand(env),
		planCommand(env),
		execCommand(env),
		psCommand,
		logsCommand,
		waitCommand,
		killCommand,
		listCommand,
		stopCommand,
		removeCommand,
		...imagesCommands,
	];
}

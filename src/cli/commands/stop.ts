/** `sbx stop NAME…`: ends what runs, keeps container and workspace. */
import type { Command } from "commander";
import { forEach } from "../each.js";
import type { Define } from "../program.js";
import { STATUS } from "../statuses.js";

export function addStop(program: Command, define: Define): void {
	const command = program
		.command("stop")
		.description("stop sandboxes; containers and workspaces stay, create starts them again")
		.argument("<name...>", "names of sandboxes");
	define(command, ({ session, names }) =>
		forEach(session, names, async (name) => {
			await session.sandboxes.stop(name, { signal: session.signal });
			return { text: `${name}: stopped\n`, answer: { name, stopped: true }, status: STATUS.ok };
		}),
	);
}

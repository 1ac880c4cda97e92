/** `sbx stop NAME…`: ends what runs, keeps container and workspace. */
import { forEach } from "../each.js";
import { type CommandSpec, command } from "../spec.js";
import { STATUS } from "../statuses.js";

export const stopCommand: CommandSpec = command({
	name: "stop",
	description: "stop sandboxes; containers and workspaces stay, create starts them again",
	arguments: [{ form: "<name...>", description: "names of sandboxes" }],
	options: [],
	handler: ({ session, names }) =>
		forEach(session, names, async (name) => {
			await session.sandboxes.stop(name, { signal: session.signal });
			return { text: `${name}: stopped\n`, answer: { name, stopped: true }, status: STATUS.ok };
		}),
});

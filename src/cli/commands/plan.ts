/** `sbx plan NAME`: what `create` would do now, and why. */
import { type CommandSpec, command } from "../spec.js";
import { STATUS } from "../statuses.js";
import { toLine } from "../text.js";
import { type ShapeFlags, shapeOptions, toCreateOptions } from "./shape-options.js";

export function planCommand(env: Readonly<Record<string, string | undefined>>): CommandSpec {
	return command<ShapeFlags>({
		name: "plan",
		description: "say what create would do with the same options, and why; do nothing",
		arguments: [{ form: "<name>", description: "name of the sandbox" }],
		get options() {
			return shapeOptions(env);
		},
		handler: async ({ session, names: [name = ""], flags }) => {
			const plan = await session.sandboxes.plan(name, { ...toCreateOptions(flags), signal: session.signal });
			const because = plan.because.map((reason) => `  ${toLine(reason)}\n`).join("");
			await session.answer(`${plan.name}: ${plan.action}\n${because}`, { ...plan, id: plan.id ?? null });
			return STATUS.ok;
		},
	});
}

/** `sbx plan NAME`: what `create` would do now, and why. */
import type { Command } from "commander";
import type { Define } from "../program.js";
import { STATUS } from "../statuses.js";
import { toLine } from "../text.js";
import { addShapeOptions, type ShapeFlags, toCreateOptions } from "./shape-options.js";

export function addPlan(program: Command, define: Define, env: Readonly<Record<string, string | undefined>>): void {
	const command = program
		.command("plan")
		.description("say what create would do with the same options, and why; do nothing")
		.argument("<name>", "name of the sandbox");
	define<ShapeFlags>(addShapeOptions(command, env), async ({ session, names: [name = ""], flags }) => {
		const plan = await session.sandboxes.plan(name, { ...toCreateOptions(flags), signal: session.signal });
		const because = plan.because.map((reason) => `  ${toLine(reason)}\n`).join("");
		await session.answer(`${plan.name}: ${plan.action}\n${because}`, { ...plan, id: plan.id ?? null });
		return STATUS.ok;
	});
}

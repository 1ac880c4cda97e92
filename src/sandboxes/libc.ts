/** Native modules belong to the libc they were built for: a workspace that moves to another gets a warning. */
import { findNativeModules } from "../workspace/native-modules.js";
import type { Context } from "./context.js";

export async function warnOfLibcChange(
	context: Context,
	name: string,
	workspaceId: string,
	before: string | undefined,
	after: string | undefined,
): Promise<void> {
	if (!before || !after || before === after || before === "unknown" || after === "unknown") return;
	const files = await findNativeModules(context.workspaces.workspacePath(workspaceId));
	if (files.length === 0) return;
	context.emit({
		type: "warning",
		code: "libc_changed",
		name,
		message: `sandbox ${name}: its workspace has native modules built for ${before}, and the image now has ${after}; install them again`,
		files,
	});
}

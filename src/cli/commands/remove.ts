/** `sbx remove NAME…`: deletes containers and workspaces. */
import { isSandboxError } from "../../index.js";
import { refuse } from "../arguments.js";
import { forEach, type Told } from "../each.js";
import type { Session } from "../session.js";
import { type Call, type CommandSpec, command } from "../spec.js";
import { STATUS } from "../statuses.js";

interface RemoveFlags {
	readonly all?: boolean;
	readonly force?: boolean;
}

export const removeCommand: CommandSpec = command<RemoveFlags>({
	name: "remove",
	alias: "rm",
	description: "delete sandboxes with their containers and workspaces",
	arguments: [{ form: "[name...]", description: "names of sandboxes" }],
	options: [
		{ flags: "-a, --all", description: "all sandboxes of this root and prefix" },
		{ flags: "-f, --force", description: "a name that does not exist is no failure" },
	],
	handler: removeNamed,
});

async function removeNamed({ session, names, flags }: Call<RemoveFlags>): Promise<number> {
	if (flags.all) {
		if (names.length > 0) throw refuse("--all", "either --all or names", names.join(" "));
		return removeAll(session);
	}
	if (names.length === 0) throw refuse("NAME", "at least one name", "", "sbx remove --all removes all of them");
	return forEach(session, names, async (name) => {
		const removed = await session.sandboxes.remove(name, { signal: session.signal });
		if (!removed) await session.err.write(session.json ? "" : `sbx: ${name}: there is none of this name\n`);
		return {
			text: removed ? `${name}: removed\n` : "",
			answer: { name, removed },
			status: removed || flags.force ? STATUS.ok : STATUS.failed,
		};
	});
}

/** The library's event tells each name as it goes; its error at the end names those that stayed. */
async function removeAll(session: Session): Promise<number> {
	const answers: (Told & { readonly removed: boolean })[] = [];
	session.onEvent = (event) => {
		if (event.type !== "removed") return;
		answers.push({ name: event.name, removed: true });
		if (!session.json) void session.answer(`${event.name}: removed\n`, undefined);
	};
	try {
		await session.sandboxes.removeAll({ signal: session.signal });
	} catch (error) {
		if (session.json && isSandboxError(error, "release_failed")) {
			const failed = error.details.failed.map(({ name, error: message }) => ({
				name,
				removed: false,
				error: { message },
			}));
			await session.answer("", [...answers, ...failed]);
		}
		throw error;
	}
	if (session.json) await session.answer("", answers);
	return STATUS.ok;
}

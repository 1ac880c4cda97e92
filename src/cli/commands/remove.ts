/** `sbx remove NAME…`: deletes containers and workspaces. */
import { isSandboxError, SandboxError } from "../../index.js";
import { refuse } from "../arguments.js";
import { forEach, type Told } from "../each.js";
import { printFailure, toFailure } from "../failure.js";
import type { Session } from "../session.js";
import { type Call, type CommandSpec, command } from "../spec.js";
import { STATUS } from "../statuses.js";

interface RemoveFlags {
	readonly all?: boolean;
	readonly force?: boolean;
}

interface Removal extends Told {
	readonly removed: boolean;
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
	return forEach<Removal>(session, names, async (name) => {
		const removed = await session.sandboxes.remove(name, { signal: session.signal });
		if (removed || flags.force) {
			return { text: removed ? `${name}: removed\n` : "", answer: { name, removed }, status: STATUS.ok };
		}
		const failure = toFailure(
			new SandboxError("not_found", `${name}: there is none of this name`, { details: { name } }),
			false,
		);
		await session.err.write(printFailure(failure, session.json));
		return { text: "", answer: { name, removed, error: failure.record ?? {} }, status: failure.status };
	});
}

/** The library's event tells each name as it goes; its error at the end names those that stayed. */
async function removeAll(session: Session): Promise<number> {
	const answers: Removal[] = [];
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
				error: { code: "release_failed", message },
			}));
			await session.answer("", [...answers, ...failed]);
		}
		throw error;
	}
	if (session.json) await session.answer("", answers);
	return STATUS.ok;
}

/** `sbx kill NAME ID…`: ends background processes of a sandbox, or sends them a signal. */
import type { Processes } from "../../index.js";
import { refuse } from "../arguments.js";
import { forEach, type Told } from "../each.js";
import { orInterrupted } from "../interruption.js";
import type { Session } from "../session.js";
import { type Call, type CommandSpec, command } from "../spec.js";
import { STATUS } from "../statuses.js";

interface KillFlags {
	readonly signal?: string;
	readonly rm?: boolean;
}

export const killCommand: CommandSpec = command<KillFlags>({
	name: "kill",
	description: "end background processes of the sandbox NAME with all they started",
	arguments: [
		{ form: "<name>", description: "name of the sandbox" },
		{ form: "<id...>", description: "ids or names of its processes" },
	],
	options: [
		{ flags: "-s, --signal <signal>", description: "only send this signal to their groups: HUP, SIGINT" },
		{ flags: "--rm", description: "delete their output and status too; ended ones as well" },
	],
	handler: killNamed,
});

async function killNamed({ session, names: [name = "", ...ids], flags }: Call<KillFlags>): Promise<number> {
	if (flags.rm && flags.signal !== undefined) throw refuse("--rm", "no -s: it ends what it deletes", flags.signal);
	const { processes } = await session.sandboxes.get(name, { signal: session.signal });
	return forEach(session, ids, (id) =>
		orInterrupted(session.signal, flags.rm ? remove(session, processes, id) : kill(processes, id, flags.signal)),
	);
}

/** What is told of one process. */
interface Outcome {
	readonly text: string;
	readonly answer: Told & Readonly<Record<string, unknown>>;
	readonly status: number;
}

async function kill(processes: Processes, id: string, signal: string | undefined): Promise<Outcome> {
	const ran = await processes.kill(id, signal);
	const done = signal === undefined ? "killed" : "signalled";
	return { text: `${id}: ${ran ? done : "not running"}\n`, answer: { name: id, [done]: ran }, status: STATUS.ok };
}

async function remove(session: Session, processes: Processes, id: string): Promise<Outcome> {
	const removed = await processes.remove(id);
	if (!removed && !session.json) await session.err.write(`sbx: ${id}: there is no such process\n`);
	return {
		text: removed ? `${id}: removed\n` : "",
		answer: { name: id, removed },
		status: removed ? STATUS.ok : STATUS.failed,
	};
}

/** `sbx wait NAME ID`: waits until a background process has ended, and ends as it did. */
import { isSandboxError, type Processes, type ProcessInfo } from "../../index.js";
import { durationOf } from "../arguments.js";
import { printFailure, toFailure } from "../failure.js";
import type { Session } from "../session.js";
import { type Call, type CommandSpec, command } from "../spec.js";
import { STATUS } from "../statuses.js";

interface WaitFlags {
	readonly timeout?: number;
}

export const waitCommand: CommandSpec = command<WaitFlags>({
	name: "wait",
	description: "wait until a background process of the sandbox NAME has ended; ends with its status",
	arguments: [
		{ form: "<name>", description: "name of the sandbox" },
		{ form: "<id>", description: "id or name of the process" },
	],
	options: [
		{
			flags: "--timeout <duration>",
			description: "wait no longer, with status 124; the process goes on (default: no limit)",
			parse: durationOf("--timeout"),
		},
	],
	handler: waitFor,
});

async function waitFor({ session, names: [name = "", id = ""], flags }: Call<WaitFlags>): Promise<number> {
	const { processes } = await session.sandboxes.get(name, { signal: session.signal });
	const info = await ended(session, processes, id, flags.timeout);
	if (!info) return STATUS.timedOut;
	if (session.json) await session.answer("", info);
	if (info.exitCode !== undefined) return info.exitCode;
	if (!session.json) await session.err.write(`sbx: ${name}: process ${id} is lost: nobody saw how it ended\n`);
	return STATUS.ownFailure;
}

/** `undefined`, and told on stderr, when the time was over first. */
async function ended(
	{ signal, json, err }: Session,
	processes: Processes,
	id: string,
	timeoutMs: number | undefined,
): Promise<ProcessInfo | undefined> {
	try {
		return await processes.wait(id, { signal, ...(timeoutMs ? { timeoutMs } : {}) });
	} catch (error) {
		if (!isSandboxError(error, "timeout")) throw error;
		await err.write(printFailure(toFailure(error, true), json));
		return undefined;
	}
}

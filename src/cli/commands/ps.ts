/** `sbx ps NAME`: the background processes of a sandbox, ended ones too. */
import { type Command, formatDuration, type ProcessInfo } from "../../index.js";
import { orInterrupted } from "../interruption.js";
import { type CommandSpec, command } from "../spec.js";
import { STATUS } from "../statuses.js";
import { toTable, toVisible } from "../text.js";

const HEADS = ["id", "name", "pid", "state", "started", "command"];
/** Of a command's text; `--json` tells all of it. */
const MAX_COMMAND_LENGTH = 100;

export const psCommand: CommandSpec = command({
	name: "ps",
	description: "list the background processes of the sandbox NAME, ended ones too",
	arguments: [{ form: "<name>", description: "name of the sandbox" }],
	options: [],
	handler: async ({ session, names: [name = ""] }) => {
		const { signal } = session;
		const box = await session.sandboxes.get(name, { signal });
		const infos = await orInterrupted(signal, box.processes.list());
		const nowMs = Date.now();
		const rows = infos.map((info) => toRow(info, nowMs));
		await session.answer(toTable(HEADS, rows), infos);
		return STATUS.ok;
	},
});

/** What is told comes from files that code in the sandbox can change: dates may be none, a command may hold anything. */
export function toRow(info: ProcessInfo, nowMs: number): readonly string[] {
	const agoMs = nowMs - info.startedAt.getTime();
	return [
		info.id,
		info.name ?? "-",
		info.pid === undefined ? "-" : String(info.pid),
		info.state === "exited" ? `exited (${info.exitCode ?? "?"})` : info.state,
		Number.isNaN(agoMs) ? "-" : `${formatDuration(Math.max(1000, agoMs))} ago`,
		shorten(toText(info.command)),
	];
}

/** A shell command as it is, an argument list as one would type it. */
function toText(words: Command): string {
	return toVisible(typeof words === "string" ? words : words.map(quote).join(" "));
}

function quote(word: string): string {
	return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

function shorten(text: string): string {
	const characters = [...text];
	return characters.length <= MAX_COMMAND_LENGTH ? text : `${characters.slice(0, MAX_COMMAND_LENGTH).join("")}…`;
}

/** `sbx list`: all sandboxes of the root and prefix. */
import { formatDuration, formatSize, type SandboxInfo } from "../../index.js";
import { type CommandSpec, command } from "../spec.js";
import { STATUS } from "../statuses.js";
import { toTable } from "../text.js";

const HEADS = ["name", "state", "image", "memory", "cpus", "age", "idle", "lifetime"];

export const listCommand: CommandSpec = command({
	name: "list",
	alias: "ls",
	description: "list the sandboxes of this root and prefix",
	options: [],
	handler: async ({ session }) => {
		const infos = await session.sandboxes.list({ signal: session.signal });
		const nowMs = Date.now();
		const rows = infos.map((info) => toRow(info, nowMs));
		await session.answer(toTable(HEADS, rows), infos);
		for (const { name, problem } of infos) if (problem !== undefined) session.note(`${name}: ${problem}`);
		return STATUS.ok;
	},
});

export function toRow(info: SandboxInfo, nowMs: number): readonly string[] {
	return [
		info.name,
		info.state,
		info.image ?? "-",
		orDash(info.memoryBytes, formatSize),
		orDash(info.cpus, String),
		orDash(info.createdAt, (at) => formatDuration(Math.max(1000, nowMs - at.getTime()))),
		orDash(info.idleTimeoutMs, formatDuration),
		orDash(info.maxLifetimeMs, formatDuration),
	];
}

function orDash<Value>(value: Value | null, format: (value: Value) => string): string {
	return value === null ? "-" : format(value);
}

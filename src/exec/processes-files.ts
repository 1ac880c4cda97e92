/**
 * What background processes left in a sandbox's home, read from the host. Code in the sandbox can change all of it at any moment:
 * no link is followed, nothing is taken for longer than it may be, and what makes no sense reads as not there.
 */
import { closeSync, fstatSync, readSync } from "node:fs";
import { join } from "node:path";
import { isSandboxError, systemCode } from "../primitives/errors.js";
import { unusable, within } from "../workspace/areas.js";
import { type Directory, findStat, openFile, readNames } from "../workspace/fd-walk.js";
import { removeTree } from "../workspace/remove-tree.js";
import type { Command } from "./request.js";

const AREA = [".sandboxes", "processes"] as const;
const ID = /^[0-9a-f]{16}$/;
const MAX_SPEC_BYTES = 32 * 1024;
/** As many processes are looked at; whoever makes more directories than that sees the rest ignored. */
const MAX_PROCESSES = 4096;
const MAX_SEGMENTS = 64;

export type LogStream = "stdout" | "stderr";

/** What was asked for. */
export interface ProcessSpecRecord {
	readonly id: string;
	readonly name: string | undefined;
	readonly command: Command;
	readonly cwd: string;
	readonly startedAtMs: number;
}

/** What is known of a process without asking the engine. */
export interface ProcessRecord {
	readonly spec: ProcessSpecRecord;
	/** The line in `pid`, once it runs. */
	readonly life: ProcessLife | undefined;
	/** Once it has ended. */
	readonly exit: { readonly exitCode: number; readonly endedAtMs: number } | undefined;
}

export interface ProcessLife {
	readonly pid: number;
	/** `<boot id>:<pid>:<start>:<keeper's pid>:<its start>`, the words by which it is known again. */
	readonly words: string;
}

/** A file with a part of a stream. */
interface Segment {
	readonly name: string;
	/** The number of its first byte in the stream. */
	readonly atByte: number;
}

/** The text of `spec`. A very long command is cut: it is there for people. */
export function toSpecText(spec: ProcessSpecRecord): string {
	const text = JSON.stringify({ v: 1, ...spec });
	if (Buffer.byteLength(text) < MAX_SPEC_BYTES) return text;
	const command = typeof spec.command === "string" ? spec.command : spec.command.join(" ");
	return JSON.stringify({ v: 1, ...spec, command: `${command.slice(0, 4096)}…`, cwd: spec.cwd.slice(0, 4096) });
}

export class ProcessFiles {
	readonly #home: string;

	/** `home`: the host's path of the sandbox's home directory, which need not be there. */
	constructor(home: string) {
		this.#home = home;
	}

	/** All processes that were asked for, the oldest first. */
	list(): ProcessRecord[] {
		const ids = within(this.#home, AREA, (area) => {
			const found: string[] = [];
			for (const batch of readNames(area)) {
				for (const { name, type } of batch) {
					const id = name.toString("latin1");
					if (type === "directory" && ID.test(id)) found.push(id);
				}
				if (found.length >= MAX_PROCESSES) break;
			}
			return found.slice(0, MAX_PROCESSES);
		});
		const records = (ids ?? []).flatMap((id) => this.#findUsable(id) ?? []);
		return records.sort((a, b) => a.spec.startedAtMs - b.spec.startedAtMs || (a.spec.id < b.spec.id ? -1 : 1));
	}

	find(id: string): ProcessRecord | undefined {
		return this.#in(id, (directory) => {
			const spec = parseSpec(id, readSmall(directory, "spec", MAX_SPEC_BYTES)?.text);
			if (!spec) return undefined;
			const exit = readSmall(directory, "exit", 16);
			const status = /^(\d{1,3})\n$/.exec(exit?.text ?? "")?.[1];
			return {
				spec,
				life: parseLife(readSmall(directory, "pid", 256)?.text),
				exit: exit && status !== undefined ? { exitCode: Number(status), endedAtMs: exit.atMs } : undefined,
			};
		});
	}

	#findUsable(id: string): ProcessRecord | undefined {
		try {
			return this.find(id);
		} catch (error) {
			if (isSandboxError(error, "workspace_unusable")) return undefined;
			throw error;
		}
	}

	/** Where the kept part of a stream begins and ends; `undefined` when there is none. */
	extent(id: string, stream: LogStream): { readonly from: number; readonly to: number } | undefined {
		return this.#in(id, (directory) => {
			const segments = segmentsOf(directory, stream);
			const first = segments[0];
			const last = segments.at(-1);
			if (!first || !last) return undefined;
			const size = findStat(directory, last.name)?.size ?? 0;
			return { from: first.atByte, to: last.atByte + size };
		});
	}

	/** Bytes of a stream from `atByte` on, or from the first that is still kept; `undefined` when there is nothing there (yet). */
	read(
		id: string,
		stream: LogStream,
		atByte: number,
		maxBytes: number,
	): { readonly atByte: number; readonly chunk: Buffer } | undefined {
		return this.#in(id, (directory) => {
			// The names are read before the bytes: a file after which another stands in the list grows no more.
			const segments = segmentsOf(directory, stream);
			let index = segments.findLastIndex((segment) => segment.atByte <= atByte);
			let at = atByte;
			for (index = Math.max(index, 0); index < segments.length; index++) {
				const segment = segments[index];
				if (!segment) break;
				at = Math.max(at, segment.atByte);
				const chunk = readAt(directory, segment.name, at - segment.atByte, maxBytes);
				if (chunk.length > 0) return { atByte: at, chunk };
			}
			return undefined;
		});
	}

	/** Deletes what is kept of a process, from the host. */
	async remove(id: string): Promise<void> {
		// Begun while the directory is open: the removal opens it by its descriptor, before it waits for anything.
		const removal = within(this.#home, AREA, (area) => removeTree(area.at(id).toString()));
		try {
			await removal;
		} catch (error) {
			if (!isSandboxError(error, "workspace_unusable")) throw error;
			throw unusable(join(this.#home, ...AREA, id), error.details.reason, error);
		}
	}

	#in<T>(id: string, work: (directory: Directory) => T): T | undefined {
		return ID.test(id) ? within(this.#home, [...AREA, id], work) : undefined;
	}
}

function readSmall(
	directory: Directory,
	name: string,
	maxBytes: number,
): { readonly text: string; readonly atMs: number } | undefined {
	const fd = openOrNothing(directory, name);
	if (fd === undefined) return undefined;
	try {
		const { mtimeMs } = fstatSync(fd);
		const bytes = Buffer.allocUnsafe(maxBytes);
		return { text: bytes.toString("utf8", 0, readSync(fd, bytes, 0, maxBytes, 0)), atMs: mtimeMs };
	} finally {
		closeSync(fd);
	}
}

function readAt(directory: Directory, name: string, offset: number, maxBytes: number): Buffer {
	const fd = openOrNothing(directory, name);
	if (fd === undefined) return Buffer.alloc(0);
	try {
		const bytes = Buffer.allocUnsafe(maxBytes);
		return bytes.subarray(0, readSync(fd, bytes, 0, maxBytes, offset));
	} finally {
		closeSync(fd);
	}
}

function openOrNothing(directory: Directory, name: string): number | undefined {
	try {
		return openFile(directory, name);
	} catch (error) {
		if (["ENOENT", "ELOOP", "ENXIO", "EACCES"].includes(systemCode(error) ?? "")) return undefined;
		throw error;
	}
}

function segmentsOf(directory: Directory, stream: LogStream): Segment[] {
	const found: Segment[] = [];
	for (const batch of readNames(directory)) {
		for (const { name } of batch) {
			const [, which, at] = /^(stdout|stderr)\.(0|[1-9]\d{0,14})$/.exec(name.toString("latin1")) ?? [];
			if (which === stream && at !== undefined) found.push({ name: name.toString("latin1"), atByte: Number(at) });
		}
		if (found.length > MAX_SEGMENTS) break;
	}
	return found.sort((a, b) => a.atByte - b.atByte);
}

function parseSpec(id: string, text: string | undefined): ProcessSpecRecord | undefined {
	let spec: Record<string, unknown>;
	try {
		const parsed: unknown = JSON.parse(text ?? "");
		if (typeof parsed !== "object" || parsed === null) return undefined;
		spec = parsed as Record<string, unknown>;
	} catch {
		return undefined;
	}
	const { name, command, cwd, startedAtMs } = spec;
	const isCommand =
		typeof command === "string" || (Array.isArray(command) && command.every((word) => typeof word === "string"));
	if (!isCommand || typeof cwd !== "string" || !Number.isSafeInteger(startedAtMs)) return undefined;
	const isName = typeof name === "string" && /^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/.test(name);
	return {
		id,
		name: isName ? name : undefined,
		command: command as Command,
		cwd,
		startedAtMs: startedAtMs as number,
	};
}

function parseLife(text: string | undefined): ProcessLife | undefined {
	const [, pid, start, keeper, keeperStart, boot] =
		/^(\d{1,10}) (\d{1,20}) (\d{1,10}) (\d{1,20}) ([0-9a-f-]{36})\n$/.exec(text ?? "") ?? [];
	if (!pid || Number(pid) < 2) return undefined;
	return { pid: Number(pid), words: [boot, pid, start, keeper, keeperStart].join(":") };
}

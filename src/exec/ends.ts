/** How a process ended, read from what the runner said, and the handing over of output in order. */
import { signalName } from "./result.js";
import type { SentinelScanner } from "./scanner.js";
import type { ExitedProcess, ProcessEnd } from "./starter.js";

/** The end that the runner told on stdout. */
export function toEnd(out: SentinelScanner): ProcessEnd {
	const [status = "", ...marks] = (out.end ?? "L").split(" ");
	if (!/^\d+$/.test(status)) return { kind: "lost", watcherKilled: "told" };
	if (out.start === undefined && Number(status) === 125) return { kind: "bad_cwd" };
	const end = exited(Number(status), marks.includes("s") ? signalName(Number(status) - 128) : undefined);
	return { ...end, ...counted("oomKills", "o", marks), ...counted("pidsRefused", "p", marks) };
}

function counted<K extends string>(
	name: K,
	letter: string,
	marks: readonly string[],
): { readonly [key in K]?: number } {
	const mark = marks.find((each) => each.startsWith(letter));
	return (mark === undefined ? {} : { [name]: Number(mark.slice(1)) }) as { readonly [key in K]?: number };
}

export function exited(exitCode: number, signal: string | undefined): ExitedProcess {
	return { kind: "exited", exitCode, ...(signal === undefined ? {} : { signal }) };
}

/** Hands pieces over one after the other; a promise only when somebody asks to be waited for. */
export function handOver(
	pieces: readonly Buffer[],
	pass: (chunk: Buffer) => void | Promise<void>,
): void | Promise<void> {
	for (const [index, piece] of pieces.entries()) {
		const accepted = pass(piece);
		if (accepted instanceof Promise) return accepted.then(() => handOver(pieces.slice(index + 1), pass));
	}
}

/** How a process ended, read from what the runner said, and the handing over of output in order. */
import { signalName } from "./result.js";
import type { SentinelScanner } from "./scanner.js";
import type { ProcessEnd } from "./starter.js";

/** The end that the runner told on stdout. */
export function toEnd(out: SentinelScanner): ProcessEnd {
	const [status = "", signaled] = (out.end ?? "L").split(" ");
	if (!/^\d+$/.test(status)) return { kind: "lost", watcherKilled: "told" };
	if (out.start === undefined && Number(status) === 125) return { kind: "bad_cwd" };
	return exited(Number(status), signaled === "s" ? signalName(Number(status) - 128) : undefined);
}

export function exited(exitCode: number, signal: string | undefined): ProcessEnd {
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

/** Shows what long work is doing: one live line on a terminal, plain lines elsewhere, nothing when quiet. */
import type { Progress, ProgressSink } from "../index.js";
import type { Outlet } from "./outlet.js";
import { toLine } from "./text.js";

/** A terminal is not redrawn more often than this. */
const REDRAW_MS = 60;
const CLEAR_LINE = "\r\u001b[K";

export interface ProgressView {
	readonly sink: ProgressSink;
	/** Takes the live line away, so that something else can be written. */
	clear(): void;
}

/** Whether the outlet is a terminal is asked when there is something to show. */
export function showProgress(outlet: Outlet, quiet: boolean, nowMs: () => number = Date.now): ProgressView {
	if (quiet) return { sink: () => {}, clear: () => {} };
	let view: ProgressView | undefined;
	return {
		sink: (progress) => {
			view ??= outlet.isTerminal ? liveLine(outlet, nowMs) : { sink: plainLines(outlet), clear: () => {} };
			view.sink(progress);
		},
		clear: () => view?.clear(),
	};
}

function plainLines(outlet: Outlet): ProgressSink {
	let last = "";
	return (progress) => {
		const line = `${progress.stage}: ${toLine(progress.message)}`;
		if (line === last) return;
		last = line;
		void outlet.write(`${line}\n`);
	};
}

function liveLine(outlet: Outlet, nowMs: () => number): ProgressView {
	let shown = false;
	let drawnAtMs = Number.NEGATIVE_INFINITY;
	return {
		sink: (progress) => {
			if (nowMs() - drawnAtMs < REDRAW_MS) return;
			drawnAtMs = nowMs();
			shown = true;
			const line = `${progress.stage}: ${toLine(progress.message)}${toShare(progress)}`;
			void outlet.write(CLEAR_LINE + line.slice(0, Math.max(1, (outlet.columns ?? 80) - 1)));
		},
		clear: () => {
			if (shown) void outlet.write(CLEAR_LINE);
			shown = false;
			drawnAtMs = Number.NEGATIVE_INFINITY;
		},
	};
}

function toShare({ current, total }: Progress): string {
	return current === undefined || !total ? "" : ` ${Math.min(100, Math.floor((current / total) * 100))}%`;
}

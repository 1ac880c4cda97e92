/** What a command works with: the library as the global options ask for it, and the ways to answer. */
import { type ProgressSink, type SandboxEvent, Sandboxes } from "../index.js";
import type { Globals } from "./globals.js";
import type { Io } from "./io.js";
import type { Outlet } from "./outlet.js";
import { type ProgressView, showProgress } from "./progress.js";
import { toLine } from "./text.js";

export interface SessionOptions {
	readonly io: Io;
	readonly out: Outlet;
	readonly err: Outlet;
	readonly globals: Globals;
	readonly signal: AbortSignal;
}

export class Session {
	readonly io: Io;
	readonly out: Outlet;
	readonly err: Outlet;
	/** Whether answers are JSON. */
	readonly json: boolean;
	/** Aborts when a signal came or nobody reads the answer any more. */
	readonly signal: AbortSignal;
	readonly #globals: Globals;
	readonly #quiet: boolean;
	readonly #progress: ProgressView;
	#sandboxes: Sandboxes | undefined;
	/** Told of every event of the library, beside the warnings that are shown. */
	onEvent: ((event: SandboxEvent) => void) | undefined;

	constructor({ io, out, err, globals, signal }: SessionOptions) {
		this.io = io;
		this.out = out;
		this.err = err;
		this.json = globals.json === true;
		this.signal = signal;
		this.#globals = globals;
		this.#quiet = globals.quiet === true;
		this.#progress = showProgress(err, this.#quiet);
	}

	/** The library, made when it is first needed. */
	get sandboxes(): Sandboxes {
		const { root, prefix, engine } = this.#globals;
		this.#sandboxes ??= new Sandboxes({
			...(root === undefined ? {} : { root }),
			...(prefix === undefined ? {} : { prefix }),
			...(engine === undefined ? {} : { engine }),
			// A process that runs one command has nothing to gain from a shell that waits for the next.
			exec: "engine",
			onEvent: (event) => this.#heard(event),
		});
		return this.#sandboxes;
	}

	get onProgress(): ProgressSink {
		return this.#progress.sink;
	}

	/** The answer of the command: the text, or with `--json` the value on one line. */
	async answer(text: string, value: unknown): Promise<void> {
		this.clearProgress();
		await this.out.write(this.json ? `${JSON.stringify(value)}\n` : text);
	}

	/** A line on stderr that is no failure; none when quiet. */
	note(text: string): void {
		if (this.#quiet) return;
		this.clearProgress();
		void this.err.write(`sbx: ${toLine(text)}\n`);
	}

	clearProgress(): void {
		this.#progress.clear();
	}

	#heard(event: SandboxEvent): void {
		if (event.type === "warning") this.note(`${event.name}: warning: ${event.message}`);
		if (event.type === "ledger_rebuilt") {
			const kept = event.setAside === undefined ? "" : `; the damaged one is kept as ${event.setAside}`;
			this.note(`warning: the ledger was rebuilt: ${event.problem}${kept}`);
		}
		this.onEvent?.(event);
	}
}

/** One command on a session: its output taken from between the runner's lines, its pid, its end. */

import type { ExecSink } from "../engine/engine.js";
import { type Deferred, deferred } from "./deferred.js";
import { handOver, toEnd } from "./ends.js";
import { SentinelScanner } from "./scanner.js";
import type { ProcessEnd } from "./starter.js";

/** How a command on a session ended; `not_run`: it has not begun and never will. */
export type RunEnd = ProcessEnd | { readonly kind: "not_run" };

/** The status of a command that did not begin before its deadline. */
const TOO_LATE = 124;

export class SessionRun {
	readonly nonce: string;
	readonly #sink: ExecSink;
	readonly #onDone: () => void;
	readonly #out: SentinelScanner;
	readonly #err: SentinelScanner;
	readonly #pid: Deferred<number | undefined> = deferred();
	readonly #ended: Deferred<RunEnd> = deferred();
	#over = false;

	/** `onDone` is called once both streams have told the end. */
	constructor(nonce: string, sink: ExecSink, onDone: () => void) {
		this.nonce = nonce;
		this.#sink = sink;
		this.#onDone = onDone;
		this.#out = new SentinelScanner(nonce);
		this.#err = new SentinelScanner(nonce);
	}

	/** Its pid once it runs; `undefined` when it ended before. Never rejects. */
	get pid(): Promise<number | undefined> {
		return this.#pid.promise;
	}

	/** Never rejects. */
	get ended(): Promise<RunEnd> {
		return this.#ended.promise;
	}

	get hasStarted(): boolean {
		return this.#out.start !== undefined;
	}

	/** Whether anything but the runner spoke before the command did: somebody else writes to these streams. */
	get isTainted(): boolean {
		return this.#out.preamble !== "" || this.#err.preamble !== "";
	}

	/** Takes bytes from one of the streams, and gives what follows the runner's last line there. */
	take(stream: "out" | "err", chunk: Buffer): Buffer | undefined | Promise<Buffer | undefined> {
		const scanner = stream === "out" ? this.#out : this.#err;
		if (scanner.end !== undefined) return chunk;
		const pass =
			stream === "out" ? (piece: Buffer) => this.#sink.onStdout(piece) : (piece: Buffer) => this.#sink.onStderr(piece);
		const handed = handOver(scanner.push(chunk), pass);
		const seen = (): Buffer | undefined => {
			if (stream === "out" && scanner.start !== undefined) this.#pid.resolve(Number(scanner.start) || 0);
			if (scanner.end === undefined) return undefined;
			if (this.#out.end !== undefined && this.#err.end !== undefined) this.#done();
			return scanner.rest;
		};
		return handed instanceof Promise ? handed.then(seen) : seen();
	}

	/** The session ended without telling the end of this command: says what that means, unless the end is known already. */
	async abandon(end: RunEnd): Promise<void> {
		if (this.#over) return;
		this.#over = true;
		await handOver(this.#out.flush(), (piece) => this.#sink.onStdout(piece));
		await handOver(this.#err.flush(), (piece) => this.#sink.onStderr(piece));
		this.#finish(this.#out.end === undefined || !this.hasStarted ? end : toEnd(this.#out));
	}

	#done(): void {
		if (this.#over) return;
		this.#over = true;
		const end = toEnd(this.#out);
		// It was too late, or the shell found no room for a process (which looks like having been killed).
		const notRun = !this.hasStarted && (end.kind === "lost" || (end.kind === "exited" && end.exitCode === TOO_LATE));
		this.#finish(notRun ? { kind: "not_run" } : end);
		this.#onDone();
	}

	#finish(end: RunEnd): void {
		this.#pid.resolve(undefined);
		this.#ended.resolve(end);
	}
}

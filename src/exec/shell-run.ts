/** One command in a stateful shell: its output between the shell's own lines, and its end. */
import { randomBytes } from "node:crypto";
import { type Deferred, deferred } from "./deferred.js";
import { OutputKeeper } from "./output.js";
import type { ExecRequest, OutputListener } from "./request.js";
import { SentinelScanner } from "./scanner.js";
import { jobsIn } from "./shell-script.js";

/** Why a command is no longer waited for: it has ended by itself, or somebody ends it. */
export type RunEnd = { readonly kind: "ended" | "timeout" } | { readonly kind: "thrown"; readonly error: unknown };

export class ShellRun {
	readonly nonce = randomBytes(16).toString("hex");
	readonly marker = randomBytes(16).toString("hex");
	readonly stdout: OutputKeeper;
	readonly stderr: OutputKeeper;
	readonly #scanners = { stdout: new SentinelScanner(this.nonce), stderr: new SentinelScanner(this.nonce) };
	readonly #listeners: { readonly stdout: OutputListener | undefined; readonly stderr: OutputListener | undefined };
	readonly #ended: Deferred<void> = deferred();
	readonly #over: Deferred<RunEnd> = deferred();

	constructor(request: ExecRequest) {
		this.stdout = new OutputKeeper(request.maxOutputBytes);
		this.stderr = new OutputKeeper(request.maxOutputBytes);
		this.#listeners = { stdout: request.onStdout, stderr: request.onStderr };
	}

	/** The shell has said that it ended. */
	get ended(): Promise<void> {
		return this.#ended.promise;
	}

	/** The first reason not to wait for it any longer. */
	get over(): Promise<RunEnd> {
		return this.#over.promise;
	}

	/** Its status, once the shell has told it. */
	get exitCode(): number | undefined {
		const status = this.#scanners.stdout.end;
		return status === undefined ? undefined : Number.parseInt(status, 10);
	}

	/** The shell's background jobs from before. */
	get jobs(): string {
		return jobsIn(this.nonce, this.#scanners.stdout.preamble);
	}

	end(reason: RunEnd): void {
		this.#over.resolve(reason);
	}

	async take(stream: "stdout" | "stderr", chunk: Buffer): Promise<void> {
		await this.#hand(stream, this.#scanners[stream].push(chunk));
		const { stdout, stderr } = this.#scanners;
		if (stdout.end === undefined || stderr.end === undefined) return;
		this.#ended.resolve(undefined);
		this.end({ kind: "ended" });
	}

	/** The shell's streams have ended: what was held back was the command's own. */
	async flush(): Promise<void> {
		for (const stream of ["stdout", "stderr"] as const) await this.#hand(stream, this.#scanners[stream].flush());
		this.end({ kind: "ended" });
	}

	async #hand(stream: "stdout" | "stderr", pieces: readonly Buffer[]): Promise<void> {
		for (const piece of pieces) {
			this[stream].add(piece);
			try {
				// A listener that never answers must not hold back a command that is being ended.
				await Promise.race([this.#listeners[stream]?.(piece), this.#over.promise]);
			} catch (error) {
				this.end({ kind: "thrown", error });
			}
		}
	}
}

/** A command in the fake engine: a function that is given its input and may speak on both streams. */
import type { ExecRecord, ExecSink, ExecSpec, RunningExec } from "../../src/engine/engine.js";
import { SandboxError } from "../../src/primitives/errors.js";

/** What a command of the fake engine sees of the world. */
export interface FakeCommand {
	readonly containerId: string;
	readonly spec: ExecSpec;
	/** Input as it comes; ends at once where the exec has no stdin. */
	readonly stdin: AsyncIterable<Buffer>;
	/** Resolves when the caller takes more. */
	stdout(data: string | Uint8Array): Promise<void>;
	stderr(data: string | Uint8Array): Promise<void>;
	/** Aborts when the container is stopped, killed or removed; the exit code is 137 then, whatever comes back. */
	readonly killed: AbortSignal;
	/** The terminal's size as it is now. */
	size(): { readonly columns: number; readonly rows: number } | undefined;
}

/** Runs a command; what it returns is the exit code. */
export type FakeProgram = (command: FakeCommand) => number | Promise<number>;

export class FakeExec implements RunningExec {
	readonly id: string;
	readonly ended: Promise<void>;
	readonly #killed = new AbortController();
	readonly #input: Buffer[] = [];
	#inputEnded: boolean;
	#wake: () => void = () => {};
	#size: { readonly columns: number; readonly rows: number } | undefined;
	#record: ExecRecord = { running: true, exitCode: null, pid: 4711 };
	#closed = false;
	#giveUp: (error: unknown) => void = () => {};

	constructor(id: string, containerId: string, spec: ExecSpec, sink: ExecSink, program: FakeProgram) {
		this.id = id;
		this.#inputEnded = !spec.stdin;
		this.#size = spec.terminal;
		const givenUp = new Promise<never>((_, reject) => {
			this.#giveUp = reject;
		});
		const hand = async (to: "onStdout" | "onStderr", data: string | Uint8Array): Promise<void> => {
			if (!this.#closed) await sink[spec.terminal ? "onStdout" : to](Buffer.from(data));
		};
		let failure: { readonly error: unknown } | undefined;
		const hear = (to: "onStdout" | "onStderr") => async (data: string | Uint8Array) => {
			await hand(to, data).catch((error: unknown) => {
				failure ??= { error };
				this.#giveUp(error);
			});
		};
		const killed = new Promise<number>((resolve) => {
			this.#killed.signal.addEventListener("abort", () => resolve(137), { once: true });
		});
		const run = async (): Promise<void> => {
			const command: FakeCommand = {
				containerId,
				spec,
				stdin: this.#readInput(),
				stdout: hear("onStdout"),
				stderr: hear("onStderr"),
				killed: this.#killed.signal,
				size: () => this.#size,
			};
			const exitCode = await Promise.race([Promise.resolve().then(() => program(command)), killed]);
			this.#record = { running: false, exitCode: this.#killed.signal.aborted ? 137 : exitCode, pid: 4711 };
			this.#wake();
			if (failure) throw failure.error;
		};
		this.ended = Promise.race([run(), givenUp]);
		this.ended.catch(() => {});
	}

	get record(): ExecRecord {
		return this.#record;
	}

	/** The end of the container it runs in. */
	kill(): void {
		this.#killed.abort();
	}

	async write(data: Uint8Array): Promise<void> {
		if (this.#inputEnded || this.#closed || !this.#record.running) return;
		this.#input.push(Buffer.from(data));
		this.#wake();
	}

	endInput(): void {
		this.#inputEnded = true;
		this.#wake();
	}

	async resize(size: { readonly columns: number; readonly rows: number }): Promise<void> {
		if (this.#size) this.#size = size;
	}

	close(): void {
		if (this.#closed) return;
		this.#closed = true;
		this.endInput();
		this.#giveUp(
			new SandboxError("engine_unavailable", "no engine answers at fake://: given up by its caller", {
				details: { address: "fake://", reason: "closed" },
			}),
		);
	}

	ref(): void {}

	unref(): void {}

	async *#readInput(): AsyncGenerator<Buffer> {
		for (;;) {
			const next = this.#input.shift();
			if (next) yield next;
			else if (this.#inputEnded || !this.#record.running) return;
			else
				await new Promise<void>((resolve) => {
					this.#wake = resolve;
				});
		}
	}
}

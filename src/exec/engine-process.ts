/** One process started by an exec of the engine: through the image's own shell, on a terminal, or directly where there is no shell. */
import { randomBytes } from "node:crypto";
import type { Engine, ExecSink, ExecSpec, RunningExec } from "../engine/engine.js";
import { sleep } from "../primitives/abort.js";
import { isSandboxError, messageOf } from "../primitives/errors.js";
import { type Deferred, deferred } from "./deferred.js";
import { exited, handOver, toEnd } from "./ends.js";
import { mayBecomeSentence, type StartFailure, startFailure } from "./engine-sentence.js";
import type { TerminalSize } from "./request.js";
import { MARKER_VARIABLE, ONE_SHOT, onTerminal, runnerCall } from "./runner.js";
import { SentinelScanner } from "./scanner.js";
import type { CommandTarget, LostProcess, ProcessEnd, ProcessSpec, StartedProcess } from "./starter.js";
import { statusOf } from "./status.js";

/** How long a command that found no room for a process is tried again; nothing of it has run by then. */
const NO_ROOM_WAITS_MS = [50, 100, 200, 400, 800, 1200, 1600];

/** What the caller of {@link EngineProcess} remembers between processes: containers whose image has no `sh`. */
export type ShellLess = Set<string>;

export class EngineProcess implements StartedProcess {
	readonly #engine: Engine;
	readonly #target: CommandTarget;
	readonly #spec: ProcessSpec;
	readonly #sink: ExecSink;
	readonly #shellLess: ShellLess;
	readonly #pid: Deferred<number | undefined> = deferred();
	readonly #ended: Deferred<ProcessEnd> = deferred();
	#exec: RunningExec | undefined;
	#closed = false;
	#givenUp = false;
	/** Whether the runner has told the end. */
	#told = false;
	#attempts = 0;

	constructor(engine: Engine, target: CommandTarget, spec: ProcessSpec, sink: ExecSink, shellLess: ShellLess) {
		this.#engine = engine;
		this.#target = target;
		this.#spec = spec;
		this.#sink = sink;
		this.#shellLess = shellLess;
	}

	get pid(): Promise<number | undefined> {
		return this.#pid.promise;
	}

	get ended(): Promise<ProcessEnd> {
		return this.#ended.promise;
	}

	/** Makes the exec. Rejects with the engine's failure; afterwards everything is told by {@link ended}. */
	async open(): Promise<void> {
		if (this.#shellLess.has(this.#target.id)) return this.#openDirect();
		return this.#openRunner();
	}

	async write(data: Uint8Array): Promise<void> {
		if ((await this.#pid.promise) !== undefined) await this.#exec?.write(data);
	}

	async endInput(): Promise<void> {
		if ((await this.#pid.promise) !== undefined) this.#exec?.endInput();
	}

	async resize(size: TerminalSize): Promise<void> {
		if ((await this.#pid.promise) !== undefined) await this.#exec?.resize(size);
	}

	giveUp(): void {
		this.#givenUp = true;
	}

	close(): void {
		this.#closed = true;
		this.#givenUp = true;
		// What the command left behind goes on and may speak: it is read to its end, as long as this process lives, and dropped.
		if (this.#told) this.#exec?.unref();
		else this.#exec?.close();
		this.#pid.resolve(undefined);
	}

	async #openRunner(): Promise<void> {
		const { terminal, argv, env, cwd, marker } = this.#spec;
		const nonce = randomBytes(16).toString("hex");
		const out = new SentinelScanner(nonce);
		const err = new SentinelScanner(nonce);
		const script = terminal ? onTerminal(terminal) : ONE_SHOT;
		let open = terminal ? 1 : 2;
		const seen = (scanner: SentinelScanner): void => {
			if (scanner === out && scanner.start !== undefined) this.#pid.resolve(Number(scanner.start) || 0);
			if (scanner.end === undefined) return;
			open -= 1;
			if (open > 0) return;
			const end = toEnd(out);
			// The shell's own child ended before the command began: there was no room for it.
			const noRoom = end.kind === "lost" && out.start === undefined;
			this.#told = !noRoom;
			if (noRoom) void this.#noRoom("");
			else this.#finish(end);
		};
		const take = (scanner: SentinelScanner, pass: (chunk: Buffer) => void | Promise<void>) => (chunk: Buffer) => {
			if (scanner.end !== undefined) return;
			const handed = handOver(scanner.push(chunk), pass);
			if (handed instanceof Promise) return handed.then(() => seen(scanner));
			seen(scanner);
		};
		const onStdout = take(out, (chunk) => this.#sink.onStdout(chunk));
		const onStderr = take(err, (chunk) => this.#sink.onStderr(chunk));
		const exec = await this.#open(
			{
				...runnerCall(script, { nonce, cwd, marker, argv, env }),
				stdin: this.#spec.stdin,
				...(terminal ? { terminal } : {}),
			},
			{ onStdout, onStderr },
		);
		if (!exec) return;
		const after = async (cause?: unknown): Promise<void> => {
			await handOver(out.flush(), (chunk) => this.#sink.onStdout(chunk));
			await handOver(err.flush(), (chunk) => this.#sink.onStderr(chunk));
			if (open === 0) return;
			if (out.end !== undefined) this.#finish(toEnd(out));
			else if (!this.#closed) await this.#runnerWithoutEnd(exec, out, err, cause);
		};
		exec.ended
			.then(
				() => after(),
				(cause: unknown) => after(cause),
			)
			.catch((cause: unknown) => this.#lost(cause));
	}

	/** The stream ended and the runner had not said how: it never ran, was killed, or works on a terminal. */
	async #runnerWithoutEnd(
		exec: RunningExec,
		out: SentinelScanner,
		err: SentinelScanner,
		cause: unknown,
	): Promise<void> {
		const record = await statusOf(this.#engine, exec.id, () => this.#closed);
		if (record === "gone") return this.#lost(cause, { execGone: true });
		if (record?.exitCode === undefined || record.exitCode === null) return this.#lost(cause);
		if (out.start !== undefined) {
			if (this.#spec.terminal) this.#finish(exited(record.exitCode, undefined));
			else this.#lost(cause, { watcherKilled: "seen" });
			return;
		}
		if (this.#spec.terminal && record.exitCode === 125) return this.#finish({ kind: "bad_cwd" });
		const failure = startFailure(out.preamble);
		if (failure === "no_shell") {
			this.#shellLess.add(this.#target.id);
			return this.#openDirect();
		}
		// A shell that cannot fork ends with 2 (dash, busybox) or 254 (bash) and says so where nobody reads it.
		const noRoom = failure === "no_room" || (failure === undefined && [2, 254].includes(record.exitCode));
		if (noRoom) return this.#noRoom(out.preamble);
		if (failure !== undefined) return this.#notStarted(failure, out.preamble);
		if (record.exitCode === 137) return this.#lost(cause, { watcherKilled: "seen" });
		await this.#notStarted("other", out.preamble + err.preamble);
	}

	async #noRoom(said: string): Promise<void> {
		await this.#tryAgain(said || "sh: cannot start a process: the limit of processes is reached\n").catch(
			(cause: unknown) => this.#lost(cause),
		);
	}

	async #tryAgain(explanation: string): Promise<void> {
		const wait = NO_ROOM_WAITS_MS[this.#attempts++];
		if (wait === undefined) return this.#notStarted("other", explanation);
		if (!this.#givenUp) await sleep(wait);
		if (this.#givenUp) return this.#finish(exited(126, undefined));
		await this.open();
	}

	/** Without a shell: the engine enters the directory and starts the program, and its sentence comes as output. */
	async #openDirect(): Promise<void> {
		const { terminal, argv, env, cwd, marker, stdin } = this.#spec;
		const held: Buffer[] = [];
		let heldBytes = 0;
		let passing = false;
		const release = (): void | Promise<void> => {
			if (passing) return;
			passing = true;
			return handOver(held, (chunk) => this.#sink.onStdout(chunk));
		};
		const exec = await this.#open(
			{
				argv,
				env: { ...env, [MARKER_VARIABLE]: marker },
				workingDir: cwd,
				stdin,
				...(terminal ? { terminal } : {}),
			},
			{
				onStdout: (chunk) => {
					if (passing) return this.#sink.onStdout(chunk);
					held.push(Buffer.from(chunk));
					heldBytes += chunk.length;
					// Anything longer, or that begins otherwise than the engine's sentence, is the command speaking.
					if (heldBytes > 8192 || !mayBecomeSentence(Buffer.concat(held).toString("latin1"))) return release();
				},
				onStderr: (chunk) => this.#sink.onStderr(chunk),
			},
		);
		if (!exec) return;
		this.#pid.resolve(0);
		const after = async (cause?: unknown): Promise<void> => {
			const record = await statusOf(this.#engine, exec.id, () => this.#closed);
			const text = passing ? "" : Buffer.concat(held).toString("utf8");
			const failure = record !== "gone" && record?.exitCode ? startFailure(text) : undefined;
			if (failure === "no_room") return this.#tryAgain(text);
			if (failure !== undefined) return this.#notStarted(failure, text);
			await release();
			if (record === "gone") this.#lost(cause, { execGone: true });
			else if (record?.exitCode === undefined || record.exitCode === null) this.#lost(cause);
			else this.#finish(exited(record.exitCode, undefined));
		};
		exec.ended
			.then(
				() => after(),
				(cause: unknown) => after(cause),
			)
			.catch((cause: unknown) => this.#lost(cause));
	}

	/** Newer engines refuse a start with an error instead of a sentence in the output; both come to the same here. */
	async #open(spec: ExecSpec, sink: ExecSink): Promise<RunningExec | undefined> {
		const user = this.#spec.user;
		try {
			const exec = await this.#engine.exec(this.#target.id, { ...spec, ...(user === undefined ? {} : { user }) }, sink);
			this.#exec = exec;
			if (this.#closed) exec.close();
			return exec;
		} catch (error) {
			const text = /(?:OCI runtime|unable to find user|no matching entries)[^\n]*/.exec(messageOf(error))?.[0];
			const failure = isSandboxError(error, "engine_failed") && text ? startFailure(text) : undefined;
			if (failure === "no_room") await this.#tryAgain(`${text}\n`);
			else if (failure === "no_shell" && !this.#shellLess.has(this.#target.id)) {
				this.#shellLess.add(this.#target.id);
				await this.#openDirect();
			} else if (failure !== undefined) await this.#notStarted(failure, `${text}\n`);
			else throw error;
			return undefined;
		}
	}

	async #notStarted(failure: StartFailure, text: string): Promise<void> {
		if (failure === "bad_cwd" || failure === "no_user") return this.#finish({ kind: failure });
		// The container was stopped between the engine's yes and the start: what became of it is looked up.
		if (failure === "ended") return this.#lost(undefined, { execGone: true });
		await this.#sink.onStderr(Buffer.from(text.replaceAll("\r\n", "\n")));
		this.#finish(exited(failure === "not_found" || failure === "no_shell" ? 127 : 126, undefined));
	}

	#lost(cause: unknown, what: Pick<LostProcess, "watcherKilled" | "execGone"> = {}): void {
		this.#finish({ kind: "lost", ...what, ...(cause === undefined ? {} : { cause }) });
	}

	#finish(end: ProcessEnd): void {
		this.#pid.resolve(undefined);
		this.#ended.resolve(end);
	}
}

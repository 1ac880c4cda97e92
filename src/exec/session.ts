/** One session: a shell that waits in a container, and the one command at a time that it runs. */
import { randomBytes } from "node:crypto";
import type { Engine, ExecSink, RunningExec } from "../engine/engine.js";
import { SessionRun } from "./session-run.js";
import { SESSION_CALL, toLine } from "./session-script.js";
import type { LostProcess } from "./starter.js";
import { statusOf } from "./status.js";

/** A command that has not begun within this does not begin any more: so nothing has run where a sandbox is paused or a shell held up. */
const LEASE_MS = 800;
/** How long its first word may take to get here. */
const TURN_MS = 50;
const MARGIN_TURNS = 4;

export interface SessionEvents {
	/** It takes the next command. */
	onIdle(session: Session): void;
	/** It takes no command any more. `wasUsed`: it had taken one and come to its end. */
	onOver(session: Session, wasUsed: boolean): void;
}

export class Session {
	readonly #engine: Engine;
	readonly #containerId: string;
	readonly #user: string | undefined;
	readonly #events: SessionEvents;
	readonly #key = randomBytes(16).toString("hex");
	#exec: RunningExec | undefined;
	#run: SessionRun | undefined;
	#runEnded = true;
	/** What the loop said after the command. */
	#tail = "";
	#wasUsed = false;
	#over = false;
	/** How far the sandbox's clock is ahead of ours, in ms; the latest that was ever seen is nearest to the truth. */
	#clockAheadMs: number | undefined;
	#watch: NodeJS.Timeout | undefined;

	constructor(engine: Engine, containerId: string, user: string | undefined, events: SessionEvents) {
		this.#engine = engine;
		this.#containerId = containerId;
		this.#user = user;
		this.#events = events;
	}

	get isOver(): boolean {
		return this.#over;
	}

	/** Whether its command has ended, and only the look at what it left behind is awaited. */
	get isAboutToBeIdle(): boolean {
		return !this.#over && this.#run !== undefined && this.#runEnded;
	}

	/** Starts the shell, with its first command on the way. Rejects with the engine's failure. */
	async open(body: Buffer, sink: ExecSink): Promise<SessionRun> {
		const run = this.#begin(sink);
		const streams = {
			onStdout: (chunk: Buffer) => this.#take("out", chunk),
			onStderr: (chunk: Buffer) => this.#take("err", chunk),
		};
		const user = this.#user === undefined ? {} : { user: this.#user };
		try {
			this.#exec = await this.#engine.exec(this.#containerId, { ...SESSION_CALL, ...user, stdin: true }, streams);
		} catch (error) {
			this.#end();
			throw error;
		}
		const exec = this.#exec;
		void exec.write(Buffer.concat([Buffer.from(`${this.#key}\n`), toLine(this.#key, run.nonce, undefined, body)]));
		exec.ended.then(
			() => this.#ended(exec, undefined),
			(cause: unknown) => this.#ended(exec, cause),
		);
		return run;
	}

	/** Gives it the next command; it has to be idle. */
	next(body: Buffer, sink: ExecSink): SessionRun {
		const run = this.#begin(sink);
		const uptimeMs = performance.now() + (this.#clockAheadMs ?? 0);
		const deadline = Math.floor((uptimeMs + LEASE_MS) / 10);
		this.#exec?.ref();
		void this.#exec?.write(toLine(this.#key, run.nonce, deadline, body));
		this.#watch = setTimeout(() => this.#tooLate(run), LEASE_MS);
		return run;
	}

	/** Lets it go: an idle shell ends at once, any other after its command and what that left behind. */
	close(): void {
		this.#end();
		this.#exec?.close();
	}

	/** Takes no more commands. What the last one left behind goes on and may speak: it is read to its end, as long as this process lives, and dropped. */
	#retire(): void {
		this.#end();
		this.#run = undefined;
		this.#exec?.endInput();
		this.#exec?.unref();
	}

	#begin(sink: ExecSink): SessionRun {
		const run = new SessionRun(randomBytes(16).toString("hex"), sink, () => {
			this.#runEnded = true;
			this.#wasUsed = true;
		});
		this.#run = run;
		this.#runEnded = false;
		this.#tail = "";
		return run;
	}

	#take(stream: "out" | "err", chunk: Buffer): void | Promise<void> {
		if (!this.#run) return this.#over ? undefined : this.#retire();
		const rest = this.#run.take(stream, chunk);
		if (rest instanceof Promise) return rest.then((bytes) => this.#after(stream, bytes));
		this.#after(stream, rest);
	}

	/** What comes after the command's end is the loop's word on itself, or somebody else's, which ends the session. */
	#after(stream: "out" | "err", rest: Buffer | undefined): void {
		if (this.#run?.hasStarted && this.#watch) this.#unwatch();
		if (rest && rest.length > 0) this.#tail += stream === "out" ? rest.toString("latin1", 0, 256) : "!";
		if (!this.#runEnded || !this.#run || this.#over) return;
		const run = this.#run;
		if (this.#tail === "") {
			// Only the loop's word is awaited, which is no reason for the process to live on.
			this.#exec?.unref();
			return;
		}
		const [, uptime] =
			/^ C (\d+)\n$/.exec(this.#tail.startsWith(run.nonce) ? this.#tail.slice(run.nonce.length) : "") ?? [];
		if (uptime !== undefined && !(this.#clockAheadMs !== undefined && run.isTainted)) {
			const ahead = Number(uptime) * 10 - performance.now();
			this.#clockAheadMs = Math.max(ahead, this.#clockAheadMs ?? ahead);
			this.#run = undefined;
			this.#exec?.unref();
			this.#events.onIdle(this);
		} else if (!`${run.nonce} C `.startsWith(this.#tail.slice(0, run.nonce.length + 3)) || this.#tail.length > 80) {
			this.#retire();
		}
	}

	async #ended(exec: RunningExec, cause: unknown): Promise<void> {
		const run = this.#run;
		this.#end();
		if (!run) return;
		if (cause !== undefined) await run.abandon({ kind: "lost", cause });
		else if (!run.hasStarted) await run.abandon({ kind: "not_run" });
		else await run.abandon(await this.#fate(exec));
	}

	/** The shell ended under a command that ran. */
	async #fate(exec: RunningExec): Promise<LostProcess> {
		const record = await statusOf(this.#engine, exec.id);
		if (record === "gone") return { kind: "lost", execGone: true };
		return record === undefined ? { kind: "lost" } : { kind: "lost", watcherKilled: "seen" };
	}

	/**
	 * A command that has not begun in time will not any more: the sandbox is paused, or the shell held up. Its first word may still
	 * be on the way, where this process or the whole machine stood still: each turn lets it come in.
	 */
	#tooLate(run: SessionRun, turns = MARGIN_TURNS): void {
		if (this.#run !== run || run.hasStarted || this.#over) return;
		if (turns > 0) {
			this.#watch = setTimeout(() => this.#tooLate(run, turns - 1), TURN_MS);
			return;
		}
		this.close();
		void run.abandon({ kind: "not_run" });
	}

	#unwatch(): void {
		clearTimeout(this.#watch);
		this.#watch = undefined;
	}

	#end(): void {
		this.#unwatch();
		if (this.#over) return;
		this.#over = true;
		this.#events.onOver(this, this.#wasUsed);
	}
}

/** One session: a shell that waits in a container, and the one command at a time that it runs. */
import { randomBytes } from "node:crypto";
import type { Engine, ExecSink, RunningExec } from "../engine/engine.js";
import { SessionRun } from "./session-run.js";
import { SESSION_CALL, toLine } from "./session-script.js";
import type { LostProcess } from "./starter.js";
import { statusOf } from "./status.js";

/** A line that the loop has not begun within this is not run any more: so it can be told of a paused sandbox that nothing runs. */
const LEASE_MS = 900;
/** How long a command may take to begin before the container is looked at. */
const LOOK_MS = LEASE_MS + 100;

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
		this.#watch = setTimeout(() => void this.#look(run), LOOK_MS);
		return run;
	}

	/** Lets it go: an idle shell ends at once, any other after its command and what that left behind. */
	close(): void {
		this.#end();
		this.#exec?.close();
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
		if (!this.#run) return this.#over ? undefined : this.close();
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
			this.close();
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

	/** A command has not begun: nothing runs in a paused sandbox. In any other it is only slow. */
	async #look(run: SessionRun): Promise<void> {
		const record = await this.#engine.inspectContainer(this.#containerId).catch(() => undefined);
		if (this.#run !== run || run.hasStarted || this.#over) return;
		if (record?.state === "running") {
			this.#watch = setTimeout(() => void this.#look(run), LOOK_MS);
			return;
		}
		this.close();
		await run.abandon({ kind: "not_run" });
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

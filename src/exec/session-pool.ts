/** The sessions of this process: a few per sandbox, opened when they are first needed, closed when they are not. */
import type { Engine, ExecSink } from "../engine/engine.js";
import { deferred } from "./deferred.js";
import { Session } from "./session.js";
import type { SessionRun } from "./session-run.js";
import type { CommandTarget } from "./starter.js";

const MAX_SESSIONS = 4;
/** A session and the shells of its command are counted as processes of the sandbox: one per so many that it may have. */
const PIDS_PER_SESSION = 16;
/** What a sandbox needs for itself and keeps free for commands, before it has room for sessions. */
const PIDS_KEPT = 16;
/** How long commands wait while no session becomes free, before the first of them goes to the engine: half of what that costs. */
const WAIT_MS = 25;
/** How long an unused session stays. */
const IDLE_MS = 60_000;
/** How long no session is opened in a container in which two in a row came to nothing. */
const DISTRUST_MS = 60_000;

/** A command that was given to a session. */
export interface Assigned {
	readonly session: Session;
	readonly run: SessionRun;
}

export interface SessionPoolOptions {
	/** How long an unused session stays. Default one minute. */
	readonly idleMs?: number;
}

export class SessionPool {
	readonly #engine: Engine;
	readonly #idleMs: number;
	readonly #boxes = new Map<string, BoxSessions>();

	constructor(engine: Engine, options: SessionPoolOptions = {}) {
		this.#engine = engine;
		this.#idleMs = options.idleMs ?? IDLE_MS;
	}

	/**
	 * Gives a command, as {@link lineBody} wrote it, to a free session or to a new one; `undefined` when there is none and no
	 * room for another, or none that works. Nothing of it has run then.
	 */
	async assign(target: CommandTarget, body: Buffer, sink: ExecSink): Promise<Assigned | undefined> {
		const key = `${target.id} ${target.user ?? ""}`;
		let box = this.#boxes.get(key);
		if (!box) {
			const forget = (): void => void this.#boxes.delete(key);
			box = new BoxSessions(this.#engine, target, this.#idleMs, forget);
			this.#boxes.set(key, box);
		}
		return box.assign(body, sink, roomFor(target.pids));
	}

	/** Closes all sessions that wait, and all others after their commands. */
	close(): void {
		for (const box of this.#boxes.values()) box.close();
	}
}

/** How many sessions a sandbox of this many processes has room for. */
export function roomFor(pids: number | undefined): number {
	if (pids === undefined) return MAX_SESSIONS;
	return Math.max(0, Math.min(MAX_SESSIONS, Math.floor((pids - PIDS_KEPT) / PIDS_PER_SESSION)));
}

class BoxSessions {
	readonly #engine: Engine;
	readonly #target: CommandTarget;
	readonly #idleMs: number;
	readonly #forget: () => void;
	readonly #all = new Set<Session>();
	readonly #idle = new Map<Session, NodeJS.Timeout>();
	/** Commands that wait for a session, first come first served. */
	readonly #waiting: ((session: Session | undefined) => void)[] = [];
	#patience: NodeJS.Timeout | undefined;
	#failures = 0;
	#distrustedUntil = 0;

	constructor(engine: Engine, target: CommandTarget, idleMs: number, forget: () => void) {
		this.#engine = engine;
		this.#target = target;
		this.#idleMs = idleMs;
		this.#forget = forget;
	}

	async assign(body: Buffer, sink: ExecSink, room: number): Promise<Assigned | undefined> {
		let session = this.#takeIdle();
		if (!session && ![...this.#all].some((each) => each.isAboutToBeIdle) && this.#mayOpen(room)) {
			return this.#open(body, sink);
		}
		session ??= this.#all.size > 0 ? await this.#wait() : undefined;
		return session && { session, run: session.next(body, sink) };
	}

	close(): void {
		for (const session of [...this.#all]) session.close();
	}

	#mayOpen(room: number): boolean {
		return this.#all.size < room && performance.now() >= this.#distrustedUntil;
	}

	async #open(body: Buffer, sink: ExecSink): Promise<Assigned | undefined> {
		const session = new Session(this.#engine, this.#target.id, this.#target.user, {
			onIdle: (freed) => this.#becameIdle(freed),
			onOver: (ended, wasUsed) => this.#ended(ended, wasUsed),
		});
		this.#all.add(session);
		try {
			return { session, run: await session.open(body, sink) };
		} catch {
			// Whatever stands in the way, an exec of the engine will meet it too and tell.
			return undefined;
		}
	}

	#takeIdle(): Session | undefined {
		const [first] = this.#idle;
		if (!first) return undefined;
		const [session, timer] = first;
		clearTimeout(timer);
		this.#idle.delete(session);
		return session;
	}

	async #wait(): Promise<Session | undefined> {
		const { promise, resolve } = deferred<Session | undefined>();
		this.#waiting.push(resolve);
		this.#patience ??= setTimeout(() => this.#goToEngine(), WAIT_MS);
		return promise;
	}

	/** No session became free for a while: the command that has waited longest goes to the engine, which starts few at a time too. */
	#goToEngine(): void {
		this.#waiting.shift()?.(undefined);
		if (this.#waiting.length > 0) this.#patience?.refresh();
		else this.#stopWaiting();
	}

	#stopWaiting(): void {
		clearTimeout(this.#patience);
		this.#patience = undefined;
		for (const waiting of this.#waiting.splice(0)) waiting(undefined);
	}

	#becameIdle(session: Session): void {
		this.#failures = 0;
		const waiting = this.#waiting.shift();
		if (waiting) {
			if (this.#waiting.length > 0) this.#patience?.refresh();
			else this.#stopWaiting();
			waiting(session);
			return;
		}
		const timer = setTimeout(() => {
			this.#idle.delete(session);
			session.close();
		}, this.#idleMs);
		this.#idle.set(session, timer.unref());
	}

	#ended(session: Session, wasUsed: boolean): void {
		this.#all.delete(session);
		clearTimeout(this.#idle.get(session));
		this.#idle.delete(session);
		if (!wasUsed && ++this.#failures >= 2) {
			this.#failures = 0;
			this.#distrustedUntil = performance.now() + DISTRUST_MS;
		}
		if (this.#all.size > 0) return;
		this.#stopWaiting();
		if (performance.now() >= this.#distrustedUntil) this.#forget();
	}
}

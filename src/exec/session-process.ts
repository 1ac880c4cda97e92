/** A command on a session, which goes to an exec of the engine where the session turns out not to have begun it. */
import { deferred } from "./deferred.js";
import { exited } from "./ends.js";
import type { Assigned } from "./session-pool.js";
import type { ProcessEnd, StartedProcess } from "./starter.js";

export class SessionProcess implements StartedProcess {
	readonly pid: Promise<number | undefined>;
	readonly ended: Promise<ProcessEnd>;
	readonly #assigned: Assigned;
	readonly #fallBack: () => Promise<StartedProcess>;
	/** The engine's process, or `undefined` once the session runs the command. */
	readonly #other = deferred<StartedProcess | undefined>();
	#hasEnded = false;
	#givenUp = false;
	#closed = false;

	constructor(assigned: Assigned, fallBack: () => Promise<StartedProcess>) {
		const { run } = assigned;
		this.#assigned = assigned;
		this.#fallBack = fallBack;
		this.pid = run.pid.then((pid) => {
			if (pid !== undefined) this.#other.resolve(undefined);
			return pid ?? this.#other.promise.then((process) => process?.pid);
		});
		this.ended = run.ended.then((end) => {
			this.#hasEnded = true;
			if (end.kind === "not_run") return this.#onEngine();
			this.#other.resolve(undefined);
			return end;
		});
	}

	async write(data: Uint8Array): Promise<void> {
		await (await this.#other.promise)?.write(data);
	}

	async endInput(): Promise<void> {
		await (await this.#other.promise)?.endInput();
	}

	async resize(): Promise<void> {}

	giveUp(): void {
		this.#givenUp = true;
		void this.#other.promise.then((process) => process?.giveUp());
	}

	close(): void {
		this.#closed = true;
		if (!this.#hasEnded) this.#assigned.session.close();
		this.#other.resolve(undefined);
		void this.#other.promise.then((process) => process?.close());
	}

	async #onEngine(): Promise<ProcessEnd> {
		if (this.#givenUp || this.#closed) {
			this.#other.resolve(undefined);
			return exited(126, undefined);
		}
		try {
			const process = await this.#fallBack();
			this.#other.resolve(process);
			if (this.#givenUp) process.giveUp();
			if (this.#closed) process.close();
			return await process.ended;
		} catch (error) {
			this.#other.resolve(undefined);
			return { kind: "refused", error };
		}
	}
}

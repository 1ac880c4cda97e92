/** Ends commands by a script that runs beside them, as the same user. */
import { randomBytes } from "node:crypto";
import type { Engine } from "../engine/engine.js";
import { sleep } from "../primitives/abort.js";
import { isSandboxError } from "../primitives/errors.js";
import type { ShellLess } from "./engine-process.js";
import type { CommandTarget, EndSpec, TreeEnder } from "./starter.js";
import { CANARY_VARIABLE, END_TREE, SIGNAL_GROUP } from "./tree-script.js";

/** A script that could not be started (no room for a process) or that was itself killed is tried again. */
const RETRY_WAITS_MS = [0, 50, 100, 200, 400, 800, 1600];
/** What a script may take beyond the grace; it gives up by itself after less. */
const SCRIPT_MS = 15_000;

export class EngineEnder implements TreeEnder {
	readonly #engine: Engine;
	readonly #shellLess: ShellLess;

	constructor(engine: Engine, shellLess: ShellLess = new Set()) {
		this.#engine = engine;
		this.#shellLess = shellLess;
	}

	async end(target: CommandTarget, spec: EndSpec): Promise<readonly number[] | undefined> {
		if (this.#shellLess.has(target.id)) return undefined;
		const hunt = new Hunt(this.#engine, target, spec);
		return hunt.run();
	}

	async signal(target: CommandTarget, pid: number, user: string | undefined, signalName: string): Promise<boolean> {
		if (pid <= 1 || this.#shellLess.has(target.id)) return false;
		const argv = ["sh", "-c", SIGNAL_GROUP, "sbx-signal", signalName, String(pid)];
		const exec = await this.#engine.exec(
			target.id,
			{ argv, env: {}, stdin: false, ...(user === undefined ? {} : { user }) },
			{ onStdout: () => {}, onStderr: () => {} },
		);
		try {
			await exec.ended;
			return (await this.#engine.inspectExec(exec.id)).exitCode === 0;
		} finally {
			exec.close();
		}
	}
}

/** The search for one command's processes. Those of other users are ended by a script that runs as that user. */
class Hunt {
	readonly #engine: Engine;
	readonly #target: CommandTarget;
	readonly #spec: EndSpec;
	/** Processes known to belong, as `pid:start`. */
	readonly #known = new Set<string>();
	/** The scripts that run for other users, by uid. */
	readonly #others = new Map<string, Promise<readonly number[] | undefined>>();

	constructor(engine: Engine, target: CommandTarget, spec: EndSpec) {
		this.#engine = engine;
		this.#target = target;
		this.#spec = spec;
	}

	async run(): Promise<readonly number[] | undefined> {
		const left = [await this.#asUser(this.#spec.user)];
		// A script may find another user's processes while it runs, so the map grows meanwhile.
		for (const other of this.#others.values()) left.push(await other);
		return left.some((pids) => pids === undefined) ? undefined : left.flatMap((pids) => pids ?? []);
	}

	async #asUser(user: string | undefined): Promise<readonly number[] | undefined> {
		for (const wait of RETRY_WAITS_MS) {
			if (wait > 0) await sleep(wait);
			const left = await this.#script(user);
			if (left) return left;
		}
		return undefined;
	}

	/** The pids that are left, or `undefined` when the script did not come to its end. */
	async #script(user: string | undefined): Promise<readonly number[] | undefined> {
		const { marker, pid, graceMs } = this.#spec;
		const canary = randomBytes(16).toString("hex");
		const grace = String(Math.ceil(graceMs / 10));
		const argv = ["sh", "-c", END_TREE, "sbx-end", marker, String(pid), grace, [...this.#known].join(" "), canary];
		const env = { [CANARY_VARIABLE]: canary };
		let text = "";
		let left: readonly number[] | undefined;
		const found = new Set<string>();
		const line = (words: readonly string[]): void => {
			if (words[0] === "U" && words[1] && words[2]) {
				this.#known.add(words[2]);
				found.add(words[1]);
			} else if (words[0] === ".") for (const uid of found) this.#other(uid);
			else if (words[0] === "left:") left = words.slice(1).map(Number);
		};
		const exec = await this.#engine.exec(
			this.#target.id,
			{ argv, env, stdin: false, ...(user === undefined ? {} : { user }) },
			{
				onStdout: (chunk) => {
					const lines = (text + chunk.toString("latin1")).split("\n");
					text = (lines.pop() ?? "").slice(-8192);
					for (const each of lines) line(each.trim().split(/\s+/));
				},
				onStderr: () => {},
			},
		);
		let timer: NodeJS.Timeout | undefined;
		const tooLong = new Promise<void>((resolve) => {
			timer = setTimeout(resolve, graceMs + SCRIPT_MS);
		});
		try {
			await Promise.race([exec.ended.catch(() => {}), tooLong]);
			return left;
		} finally {
			clearTimeout(timer);
			exec.close();
		}
	}

	#other(uid: string): void {
		if (this.#others.has(uid) || !/^\d+$/.test(uid)) return;
		this.#others.set(
			uid,
			this.#asUser(uid).catch((error: unknown) => {
				if (isSandboxError(error)) return undefined;
				throw error;
			}),
		);
	}
}

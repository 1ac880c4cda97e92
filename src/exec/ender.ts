/** Ends commands by a script that runs beside them, as the same user: on a session where that works, else by an exec of the engine. */
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

/** Runs a script as the user of the sandbox's commands. Its status, or `undefined` when it did not come to its end. */
export type ScriptRunner = (
	target: CommandTarget,
	argv: readonly string[],
	env: Readonly<Record<string, string>>,
	onStdout: (chunk: Buffer) => void,
	limitMs: number,
) => Promise<number | undefined>;

export class ScriptEnder implements TreeEnder {
	readonly #engine: Engine;
	readonly #shellLess: ShellLess;
	readonly #quick: ScriptRunner | undefined;

	/** `quick` is tried before the engine. */
	constructor(engine: Engine, shellLess: ShellLess = new Set(), quick?: ScriptRunner) {
		this.#engine = engine;
		this.#shellLess = shellLess;
		this.#quick = quick;
	}

	async end(target: CommandTarget, spec: EndSpec): Promise<readonly number[] | undefined> {
		if (this.#shellLess.has(target.id)) return undefined;
		const hunt = new Hunt(this.#engine, target, spec, this.#quick);
		return hunt.run();
	}

	async signal(target: CommandTarget, pid: number, user: string | undefined, signalName: string): Promise<boolean> {
		if (pid <= 1 || this.#shellLess.has(target.id)) return false;
		const argv = ["sh", "-c", SIGNAL_GROUP, "sbx-signal", signalName, String(pid)];
		if (user === target.user) {
			const status = await this.#quick?.(target, argv, {}, () => {}, SCRIPT_MS);
			if (status !== undefined) return status === 0;
		}
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
	readonly #quick: ScriptRunner | undefined;
	/** Processes known to belong, as `pid:start`. */
	readonly #known = new Set<string>();
	/** The scripts that run for other users, by uid. */
	readonly #others = new Map<string, Promise<readonly number[] | undefined>>();

	constructor(engine: Engine, target: CommandTarget, spec: EndSpec, quick: ScriptRunner | undefined) {
		this.#engine = engine;
		this.#target = target;
		this.#spec = spec;
		this.#quick = quick;
	}

	async run(): Promise<readonly number[] | undefined> {
		const left = [await this.#asUser(this.#spec.user)];
		// A script may find another user's processes while it runs, so the map grows meanwhile.
		for (const other of this.#others.values()) left.push(await other);
		return left.some((pids) => pids === undefined) ? undefined : left.flatMap((pids) => pids ?? []);
	}

	async #asUser(user: string | undefined): Promise<readonly number[] | undefined> {
		const quick = user === this.#target.user ? this.#quick : undefined;
		const atOnce = quick && (await this.#script(user, quick));
		if (atOnce) return atOnce;
		for (const wait of RETRY_WAITS_MS) {
			if (wait > 0) await sleep(wait);
			const left = await this.#script(user);
			if (left) return left;
		}
		return undefined;
	}

	/** The pids that are left, or `undefined` when the script did not come to its end. */
	async #script(user: string | undefined, quick?: ScriptRunner): Promise<readonly number[] | undefined> {
		const { marker, pid, graceMs } = this.#spec;
		const canary = randomBytes(16).toString("hex");
		const grace = String(Math.ceil(graceMs / 10));
		const argv = ["sh", "-c", END_TREE, "sbx-end", marker, String(pid), grace, [...this.#known].join(" "), canary];
		const env = { [CANARY_VARIABLE]: canary };
		const limitMs = graceMs + SCRIPT_MS;
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
		const onStdout = (chunk: Buffer): void => {
			const lines = (text + chunk.toString("latin1")).split("\n");
			text = (lines.pop() ?? "").slice(-8192);
			for (const each of lines) line(each.trim().split(/\s+/));
		};
		if (quick) await quick(this.#target, argv, env, onStdout, limitMs);
		else await this.#byEngine(user, argv, env, onStdout, limitMs);
		return left;
	}

	async #byEngine(
		user: string | undefined,
		argv: readonly string[],
		env: Readonly<Record<string, string>>,
		onStdout: (chunk: Buffer) => void,
		limitMs: number,
	): Promise<void> {
		const exec = await this.#engine.exec(
			this.#target.id,
			{ argv, env, stdin: false, ...(user === undefined ? {} : { user }) },
			{ onStdout, onStderr: () => {} },
		);
		let timer: NodeJS.Timeout | undefined;
		const tooLong = new Promise<void>((resolve) => {
			timer = setTimeout(resolve, limitMs);
		});
		try {
			await Promise.race([exec.ended.catch(() => {}), tooLong]);
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

/** The handle: one container of one sandbox, as a caller holds it. Local and idempotent: leaving it ends nothing. */
import type { PublishedPort } from "../engine/engine.js";
import { type CodeLanguage, type CodeOptions, normaliseCode } from "../exec/code.js";
import type { RunningCommand } from "../exec/commands.js";
import { Processes, type ProcessHost } from "../exec/processes.js";
import type { Command, ExecOptions, ExecRequest, ExecResult } from "../exec/request.js";
import { Shell } from "../exec/shell.js";
import { normaliseShell, type ShellOptions } from "../exec/shell-request.js";
import { SpawnedCommand } from "../exec/spawned-command.js";
import {
	normaliseSpawn,
	normaliseTerminal,
	type SpawnOptions,
	type TerminalSpawnOptions,
} from "../exec/spawned-request.js";
import { Terminal } from "../exec/spawned-terminal.js";
import type { CommandTarget } from "../exec/starter.js";
import type { Context } from "./context.js";
import { findRow } from "./context.js";
import { HOME_TARGET } from "./defaults.js";
import type { Outcome } from "./events.js";
import type { Recorded } from "./labels.js";
import type { CallOptions } from "./options.js";
import type { Reason } from "./reasons.js";
import { normaliseCall } from "./request.js";

/** What a handle knows from the moment it was made. */
export interface SandboxFacts {
	readonly id: string;
	readonly name: string;
	readonly imageId: string;
	readonly ports: readonly PublishedPort[];
	/** The container's own environment: names that a shell drops are passed to each command again. */
	readonly containerEnv: Readonly<Record<string, string>>;
	readonly recorded: Recorded;
	readonly outcome: Outcome;
	readonly reasons: readonly Reason[];
	/** Whether the workspace was made by the call that gave the handle. */
	readonly fresh: boolean;
}

/**
 * A sandbox, as `create()` and `get()` give it.
 *
 * The handle is of the container it was made for: after a rebuild or a removal by anyone its calls reject with `gone`,
 * and never act on what took the place. Nothing has to be closed; it may be dropped, or used with `await using`, and
 * the sandbox goes on either way.
 */
export class Sandbox implements AsyncDisposable {
	/** The container's id. */
	readonly id: string;
	readonly name: string;
	/** The reference by which the image was asked for. */
	readonly image: string;
	/** The image's content id, `sha256:…`. */
	readonly imageId: string;
	/** When the container was made; a rebuild makes a new one. */
	readonly createdAt: Date;
	/** The workspace on the host: what is `/workspace` inside. Code inside controls it: do not follow its links. */
	readonly workspaceDir: string;
	/** What the call that gave this handle did. */
	readonly outcome: Outcome;
	/** Whether that call made the sandbox with an empty workspace. */
	readonly created: boolean;
	/** Why it was made, rebuilt or replaced; empty when it was served or started. */
	readonly reasons: readonly Reason[];
	/** The published ports, with the host's side of each. */
	readonly ports: readonly PublishedPort[];
	readonly #context: Context;
	readonly #recorded: Recorded;
	readonly #containerEnv: Readonly<Record<string, string>>;
	#processes: Processes | undefined;

	/** @internal */
	constructor(context: Context, facts: SandboxFacts) {
		this.#context = context;
		this.#recorded = facts.recorded;
		this.#containerEnv = facts.containerEnv;
		this.id = facts.id;
		this.name = facts.name;
		this.image = facts.recorded.image;
		this.imageId = facts.imageId;
		this.createdAt = new Date(facts.recorded.createdAtMs);
		this.workspaceDir = context.workspaces.workspacePath(facts.recorded.workspaceId);
		this.outcome = facts.outcome;
		this.created = facts.fresh;
		this.reasons = facts.reasons;
		this.ports = facts.ports;
	}

	/** Processes in the background, which go on when this process ends. */
	get processes(): Processes {
		this.#processes ??= new Processes(this.#processHost());
		return this.#processes;
	}

	/**
	 * Runs a command in `/workspace` and gives its result when it has ended. A string is a shell command, an array a program
	 * with exactly these arguments. A non-zero exit is a result, and so is a time limit (`timedOut: true`).
	 *
	 * The environment is the image's, then what `create()` stated last, then `options.env`. A time limit or an abort ends the
	 * command's whole process tree and nothing else. A child left in the background does not hold the result back, and goes on.
	 *
	 * Throws `invalid_input` (before anything runs), `gone`, `stopped` (with the output so far), `bad_cwd`, `exec_lost`,
	 * `engine_unavailable`; rejects with `signal.reason` after an abort.
	 */
	exec(
		command: string | readonly string[],
		options: ExecOptions & { readonly encoding: "buffer" },
	): Promise<ExecResult<Buffer>>;
	exec(command: string | readonly string[], options?: ExecOptions): Promise<ExecResult>;
	async exec(command: string | readonly string[], options: ExecOptions = {}): Promise<ExecResult | ExecResult<Buffer>> {
		const request = this.#context.commands.normalise(command, options);
		return this.#context.commands.run(await this.#target(request), request);
	}

	/**
	 * Starts a command and gives a handle at once: its streams as they flow, its pid, its end. For what is spoken with while it runs;
	 * what only has an answer is better asked with `exec()`.
	 *
	 * The command reads what is written to `stdin` until that is ended. Its output waits to be read. It ends with its time limit,
	 * `options.signal`, or the `await using` block. For what should go on when this process ends, see {@link processes}.
	 * Throws `invalid_input`; everything else is told by `wait()`, as `exec()` tells it.
	 *
	 * @example
	 * ```ts
	 * import { Sandboxes } from "sandboxes";
	 * const sandboxes = new Sandboxes({ root: "/var/tmp/sandboxes-example" });
	 * const box = await sandboxes.create("spawned");
	 * await using sort = box.spawn(["sort", "-n"]);
	 * sort.stdin.end("10\n9\n");
	 * const lines: string[] = [];
	 * for await (const line of sort.lines()) lines.push(line);
	 * console.log(lines.join(" "), (await sort.wait()).exitCode); // 9 10 0
	 * await sandboxes.remove("spawned");
	 * ```
	 */
	spawn(command: Command, options: SpawnOptions = {}): SpawnedCommand {
		return new SpawnedCommand(normaliseSpawn(command, options), this.#start);
	}

	/**
	 * Opens a terminal, 80 by 24 unless said otherwise, and runs a shell (bash where there is one) or `command` on it. `TERM` is
	 * `xterm-256color` unless given. The size holds from the start. Throws as {@link spawn}.
	 *
	 * @example
	 * ```ts
	 * import { Sandboxes } from "sandboxes";
	 * const sandboxes = new Sandboxes({ root: "/var/tmp/sandboxes-example" });
	 * const box = await sandboxes.create("terminal");
	 * await using terminal = box.terminal(["sh"], { columns: 120, rows: 40 });
	 * let shown = "";
	 * terminal.onData((chunk) => (shown += chunk));
	 * await terminal.write("stty size; exit 3\n");
	 * console.log((await terminal.wait()).exitCode, shown.includes("40 120")); // 3 true
	 * await sandboxes.remove("terminal");
	 * ```
	 */
	terminal(command?: Command, options: TerminalSpawnOptions = {}): Terminal {
		return new Terminal(normaliseTerminal(command, options), this.#start);
	}

	/**
	 * Opens a shell in which working directory, variables and functions live on from one `run()` to the next. Close it: it
	 * keeps this process alive. Throws `invalid_input`; that it cannot be started is told by the first `run()`.
	 *
	 * @example
	 * ```ts
	 * import { Sandboxes } from "sandboxes";
	 * const sandboxes = new Sandboxes({ root: "/var/tmp/sandboxes-example" });
	 * const box = await sandboxes.create("shell");
	 * await using shell = box.shell();
	 * await shell.run("cd /tmp; greet() { echo hello from $PWD; }");
	 * console.log((await shell.run("greet")).stdout.trim()); // hello from /tmp
	 * const slow = await shell.run("sleep 60; cd /", { timeoutMs: 200 });
	 * console.log(slow.timedOut, slow.shellEnded, (await shell.run("pwd")).stdout.trim()); // true false /tmp
	 * await sandboxes.remove("shell");
	 * ```
	 */
	shell(options: ShellOptions = {}): Shell {
		const request = normaliseShell(options);
		return new Shell(request, {
			name: this.name,
			launch: this.#start,
			run: async (beside) => this.#context.commands.run(await this.#target(beside), beside),
		});
	}

	/**
	 * Runs program text and gives its result, as {@link exec} does. The text is in no file: nothing is written into the workspace
	 * but what the program writes. It runs in `/workspace` and can import what is there. Up to 128 KiB of text can have `stdin`
	 * beside it; longer text takes its place, and the program then reads an end of file.
	 *
	 * `python` is the image's `python3`. A language that the image does not have is exit code 127. Throws as {@link exec}.
	 *
	 * @example
	 * ```ts
	 * import { Sandboxes } from "sandboxes";
	 * const sandboxes = new Sandboxes({ root: "/var/tmp/sandboxes-example" });
	 * const box = await sandboxes.create("code");
	 * const { stdout } = await box.run("node", "console.log(process.argv[1].length)", { args: ["four"] });
	 * console.log(stdout.trim()); // 4
	 * await sandboxes.remove("code");
	 * ```
	 */
	run(
		language: CodeLanguage,
		source: string,
		options: CodeOptions & { readonly encoding: "buffer" },
	): Promise<ExecResult<Buffer>>;
	run(language: CodeLanguage, source: string, options?: CodeOptions): Promise<ExecResult>;
	async run(
		language: CodeLanguage,
		source: string,
		options: CodeOptions = {},
	): Promise<ExecResult | ExecResult<Buffer>> {
		const request = normaliseCode(language, source, options);
		return this.#context.commands.run(await this.#target(request), request);
	}

	/**
	 * Stops the container: commands in flight are told to end, and killed after `stopGraceMs`. Container, workspace and home
	 * are kept; the next `create()` starts the same container with all that was installed in it. Stopped or gone already is
	 * no error. Throws `engine_unavailable`, `engine_failed`.
	 */
	async stop(options: CallOptions = {}): Promise<void> {
		const call = normaliseCall(options);
		const { engine, emit } = this.#context;
		const row = await findRow(this.#context, this.name);
		const graceMs = row?.stopGraceMs ?? this.#recorded.stopGraceMs;
		const record = await engine.inspectContainer(this.id, call);
		if (!record) return;
		if (record.state === "paused") await engine.unpauseContainer(this.id, call);
		if (await engine.stopContainer(this.id, graceMs, call)) emit({ type: "stopped", name: this.name, id: this.id });
	}

	/** Does nothing to the sandbox: a name is shared, so leaving a block never ends it. */
	async [Symbol.asyncDispose](): Promise<void> {}

	readonly #start = async (request: ExecRequest): Promise<RunningCommand> =>
		this.#context.commands.start(await this.#target(request), request);

	#processHost(): ProcessHost {
		const { commands, engine, workspaces, clock } = this.#context;
		return {
			name: this.name,
			home: workspaces.homePath(this.#recorded.workspaceId),
			homeInside: HOME_TARGET,
			nowMs: () => clock.nowMs(),
			target: () => this.#target({ user: undefined }),
			run: (target, request) => commands.run(target, request),
			end: (target, spec) => commands.end(target, spec),
			signal: (target, pid, signalName) => commands.signal(target, pid, signalName),
			isRunning: async () => {
				const state = (await engine.inspectContainer(this.id))?.state;
				return state === "running" || state === "paused";
			},
		};
	}

	/** This sandbox for a command: with the variables that hold now. */
	async #target(request: Pick<ExecRequest, "user">): Promise<CommandTarget> {
		const row = await findRow(this.#context, this.name);
		const asOther = request.user !== undefined && request.user !== this.#recorded.shape.user;
		const env = {
			...(asOther ? { HOME: request.user === "root" ? "/root" : HOME_TARGET } : {}),
			...row?.env,
		};
		const { pids } = this.#recorded.shape;
		return { id: this.id, name: this.name, env, containerEnv: this.#containerEnv, pids };
	}
}

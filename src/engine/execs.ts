/** The engine's calls on commands that run in a container. */
import { toEnvList } from "./container-config.js";
import type { CallOptions, ExecRecord, ExecSink, ExecSpec, RunningExec } from "./engine.js";
import { type EngineApi, segment } from "./engine-api.js";
import { shortId } from "./engine-errors.js";
import { ExecStream } from "./exec-stream.js";
import { numberOf, objectOf, textOf } from "./json-fields.js";

/** A busy engine may start one command of a container at a time. */
const START_TIMEOUT_MS = 60_000;
/** The engine waits up to 10 s for a command that is to start. */
const RESIZE_TIMEOUT_MS = 15_000;

/**
 * The keys that would detach a terminal: the engine's own (ctrl-p ctrl-q) would swallow what is typed, none cannot be
 * asked for. The first of them is held back until the next key, so it is one that hardly anything listens to.
 */
const DETACH_KEYS = "ctrl-^,ctrl-@,ctrl-],ctrl-^,ctrl-@,ctrl-_,ctrl-^";

export class Execs {
	readonly #api: EngineApi;

	constructor(api: EngineApi) {
		this.#api = api;
	}

	async start(containerId: string, spec: ExecSpec, sink: ExecSink, options: CallOptions = {}): Promise<RunningExec> {
		const id = await this.#create(containerId, spec, options);
		const connection = await this.#api.open({
			what: `starting a command in container ${shortId(containerId)}`,
			subject: "exec",
			method: "POST",
			path: `/exec/${segment("exec", id)}/start`,
			body: { Detach: false, Tty: spec.terminal !== undefined, ...consoleSize(spec) },
			timeoutMs: START_TIMEOUT_MS,
			signal: options.signal,
		});
		const resize = (size: { readonly columns: number; readonly rows: number }) => this.#resize(id, size);
		const exec = new ExecStream({
			id,
			address: this.#api.address,
			connection,
			sink,
			terminal: spec.terminal !== undefined,
			stdin: spec.stdin,
			resize,
		});
		// Engines before API 1.42 do not know ConsoleSize and take a size once the command runs. Waited for, so that
		// input finds a terminal that has its size; one of the wrong size is no reason to fail.
		if (spec.terminal) await Promise.race([exec.resize(spec.terminal), exec.ended]).catch(() => {});
		return exec;
	}

	async inspect(execId: string, options: CallOptions = {}): Promise<ExecRecord> {
		const { data } = await this.#api.call({
			what: "looking at a command",
			subject: "exec",
			method: "GET",
			path: `/exec/${segment("exec", execId)}/json`,
			signal: options.signal,
		});
		const record = objectOf(data);
		if (textOf(record["ID"]) === "") throw this.#api.notAnEngine("its answer about a command has no id");
		const running = record["Running"] === true;
		const exitCode = record["ExitCode"];
		return {
			running,
			exitCode: running || typeof exitCode !== "number" ? null : exitCode,
			pid: numberOf(record["Pid"]),
		};
	}

	async #create(containerId: string, spec: ExecSpec, options: CallOptions): Promise<string> {
		const { data } = await this.#api.call({
			what: `preparing a command in container ${shortId(containerId)}`,
			subject: "container",
			method: "POST",
			path: `/containers/${segment("container", containerId)}/exec`,
			body: {
				AttachStdin: spec.stdin,
				AttachStdout: true,
				AttachStderr: true,
				Tty: spec.terminal !== undefined,
				Cmd: spec.argv,
				Env: toEnvList(spec.env),
				DetachKeys: DETACH_KEYS,
				...(spec.user === undefined ? {} : { User: spec.user }),
				...(spec.workingDir === undefined ? {} : { WorkingDir: spec.workingDir }),
				...consoleSize(spec),
			},
			timeoutMs: START_TIMEOUT_MS,
			signal: options.signal,
		});
		const id = textOf(objectOf(data)["Id"]);
		if (id === "") throw this.#api.notAnEngine("it prepared a command and did not tell its id");
		return id;
	}

	async #resize(execId: string, size: { readonly columns: number; readonly rows: number }): Promise<void> {
		await this.#api.call({
			what: "resizing a terminal",
			subject: "exec",
			method: "POST",
			path: `/exec/${segment("exec", execId)}/resize`,
			query: { h: size.rows, w: size.columns },
			timeoutMs: RESIZE_TIMEOUT_MS,
		});
	}
}

function consoleSize(spec: ExecSpec): { readonly ConsoleSize?: readonly [number, number] } {
	return spec.terminal ? { ConsoleSize: [spec.terminal.rows, spec.terminal.columns] } : {};
}

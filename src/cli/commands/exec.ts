/** `sbx exec NAME -- COMMAND`: runs a command in a sandbox that is there, and ends as the command did; with `-d`, as soon as it runs. */
import { type Command, type ExecOptions, type ExecResult, formatDuration, type Sandbox } from "../../index.js";
import { durationOf, envFrom, refuse } from "../arguments.js";
import type { Session } from "../session.js";
import { type Call, type CommandSpec, command, type OptionSpec } from "../spec.js";
import { STATUS } from "../statuses.js";
import { holdTerminal } from "../terminal.js";

interface ExecFlags {
	readonly shell?: string;
	readonly detach?: boolean;
	readonly name?: string;
	readonly interactive?: boolean;
	readonly tty?: boolean;
	readonly env?: Readonly<Record<string, string>>;
	readonly cwd?: string;
	readonly user?: string;
	readonly timeout?: number;
}

export function execCommand(env: Readonly<Record<string, string | undefined>>): CommandSpec {
	return command<ExecFlags>({
		name: "exec",
		description: "run a command in the sandbox NAME, which must be there; ends with the command's status",
		usage:
			"[options] NAME [--] COMMAND [ARG...]\n       sbx exec [options] NAME -c 'SHELL COMMAND'\n       sbx exec -d [--name NAME] [options] NAME [--] COMMAND [ARG...]",
		arguments: [{ form: "<name>", description: "name of the sandbox" }],
		get options() {
			return execOptions(env);
		},
		handler: runCommand,
	});
}

function execOptions(env: Readonly<Record<string, string | undefined>>): readonly OptionSpec[] {
	return [
		{ flags: "-c, --shell <string>", description: "a shell command, instead of a program and its arguments" },
		{
			flags: "-e, --env <name=value>",
			description: "variable of the command; NAME alone takes yours; repeatable",
			parse: envFrom(env),
		},
		{ flags: "-w, --cwd <dir>", description: "working directory, from /workspace (default: /workspace)" },
		{ flags: "-u, --user <user>", description: "root, uid:gid or a user of the image (default: the sandbox's)" },
		{
			flags: "--timeout <duration>",
			description: "end it after this time, with status 124 (default: no limit)",
			parse: durationOf("--timeout"),
		},
		{
			flags: "-i, --interactive",
			description: "pass stdin on though it is a terminal (other input is always passed on)",
		},
		{ flags: "-t, --tty", description: "run it on a terminal; stderr is then part of stdout" },
		{ flags: "-d, --detach", description: "start it as a background process, print its id, and leave it running" },
		{ flags: "--name <name>", description: "with -d: a name to ask for it by, beside its id" },
	];
}

async function runCommand({ session, names: [name = ""], flags, inner }: Call<ExecFlags>): Promise<number> {
	const command = commandOf(name, flags.shell, inner);
	if (flags.detach) return startDetached(session, name, command, flags);
	if (flags.name !== undefined) throw refuse("--name", "-d, which starts a background process", flags.name);
	if (flags.tty && session.json) throw refuse("--tty", "no --json, which needs stdout and stderr apart", "--json");
	if (flags.tty && session.io.stdinKind() !== "terminal") {
		throw refuse(
			"--tty",
			"a terminal on stdin",
			"something else",
			"leave -t out: stdin and output are passed on without it",
		);
	}
	const { signal } = session;
	const box = await session.sandboxes.get(name, { signal });
	const options: ExecOptions = {
		signal,
		...(flags.env ? { env: flags.env } : {}),
		...(flags.cwd === undefined ? {} : { cwd: flags.cwd }),
		...(flags.user === undefined ? {} : { user: flags.user }),
		...(flags.timeout ? { timeoutMs: flags.timeout } : {}),
	};
	const result = await (session.json ? collect : flags.tty ? onTerminal : stream)(session, box, command, {
		...options,
		...inputOf(session, flags),
	});
	if (!result.timedOut) return result.exitCode;
	if (!session.json) {
		await session.err.write(
			`sbx: ${name}: the command was ended after ${formatDuration(flags.timeout ?? 0)} (--timeout)\n`,
		);
	}
	return STATUS.timedOut;
}

/** Options that make no sense for a process that goes on without the program. */
const ATTACHED = { interactive: "-i", tty: "-t", timeout: "--timeout", user: "--user" } as const;

async function startDetached(session: Session, name: string, command: Command, flags: ExecFlags): Promise<number> {
	for (const key of Object.keys(ATTACHED) as (keyof typeof ATTACHED)[]) {
		const option = ATTACHED[key];
		if (flags[key] !== undefined)
			throw refuse(
				"--detach",
				`no ${option}`,
				option,
				"with -d a command has no input, no limit, and the sandbox's user",
			);
	}
	const { signal } = session;
	const box = await session.sandboxes.get(name, { signal });
	const info = await box.processes.start(command, {
		signal,
		...(flags.name === undefined ? {} : { name: flags.name }),
		...(flags.env ? { env: flags.env } : {}),
		...(flags.cwd === undefined ? {} : { cwd: flags.cwd }),
	});
	await session.answer(`${info.id}\n`, info);
	return STATUS.ok;
}

function commandOf(name: string, shell: string | undefined, inner: readonly string[] | undefined): Command {
	if (shell !== undefined && inner) throw refuse("-c", "either -c STRING or a command", inner.join(" "));
	const command = shell ?? inner;
	if (command === undefined)
		throw refuse("COMMAND", "a command", "", `for example: sbx exec ${name || "NAME"} -- ls -la`);
	return command;
}

function inputOf(session: Session, flags: ExecFlags): Pick<ExecOptions, "stdin"> {
	const kind = session.io.stdinKind();
	const isPassed = kind === "data" || (kind === "terminal" && (flags.interactive || flags.tty));
	return isPassed ? { stdin: session.io.stdin } : {};
}

/** Hands both streams on as they come, byte for byte; the reader's pace is the command's. */
function stream(
	{ out, err }: Session,
	box: Sandbox,
	command: Command,
	options: ExecOptions,
): Promise<ExecResult<Buffer>> {
	return box.exec(command, {
		...options,
		encoding: "buffer",
		maxOutputBytes: 0,
		onStdout: (chunk) => out.write(chunk),
		onStderr: (chunk) => err.write(chunk),
	});
}

async function onTerminal(
	session: Session,
	box: Sandbox,
	command: Command,
	options: ExecOptions,
): Promise<ExecResult<Buffer>> {
	const terminal = holdTerminal(session.io);
	try {
		const env = { TERM: session.io.env["TERM"] || "xterm", ...options.env };
		return await stream(session, box, command, { ...options, env, terminal: terminal.options });
	} finally {
		terminal.restore();
	}
}

async function collect(session: Session, box: Sandbox, command: Command, options: ExecOptions): Promise<ExecResult> {
	const result = await box.exec(command, options);
	const { exitCode, stdout, stderr, timedOut, truncated, durationMs } = result;
	await session.answer("", { exitCode, stdout, stderr, timedOut, truncated, durationMs });
	return result;
}

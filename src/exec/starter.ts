/** How a process is started in a sandbox, as something that can be swapped; and what the rest of the room needs of it. */
import type { ExecSink } from "../engine/engine.js";
import type { TerminalSize } from "./request.js";

/** The sandbox a command runs in. */
export interface CommandTarget {
	/** The container's id. */
	readonly id: string;
	/** The sandbox's name, for messages. */
	readonly name: string;
	/** The sandbox's variables, given to every command under those of the command itself. */
	readonly env?: Readonly<Record<string, string>>;
	/** What the container has in its own environment. Names that are no identifiers are given again, as a shell drops them. */
	readonly containerEnv?: Readonly<Record<string, string>>;
	/** The user of every command that names none. Left out: the container's. */
	readonly user?: string;
	/** How many processes the sandbox may have. Left out: many. */
	readonly pids?: number;
}

/** One process to be started. */
export interface ProcessSpec {
	readonly argv: readonly string[];
	readonly env: Readonly<Record<string, string>>;
	/** Absolute. */
	readonly cwd: string;
	readonly user: string | undefined;
	readonly stdin: boolean;
	/** All of the input, where it is known from the start. It is still written by whoever writes any other. */
	readonly input?: Uint8Array;
	readonly terminal: TerminalSize | undefined;
	/** A random word that every process of this command carries in its environment. */
	readonly marker: string;
}

/** How a process ended, as far as whoever started it can tell. */
export type ProcessEnd =
	| ExitedProcess
	/** The working directory cannot be entered; nothing has run. */
	| { readonly kind: "bad_cwd" }
	/** The image knows no such user; nothing has run. */
	| { readonly kind: "no_user" }
	/** The engine refuses to start it; nothing has run. */
	| { readonly kind: "refused"; readonly error: unknown }
	/** The way to the process broke before its end was told. */
	| LostProcess;

export interface ExitedProcess {
	readonly kind: "exited";
	readonly exitCode: number;
	readonly signal?: string;
	/** How many processes of the sandbox were killed for memory meanwhile. Left out: not known. */
	readonly oomKills?: number;
	/** How many processes the sandbox was refused meanwhile, for having too many. Left out: not known. */
	readonly pidsRefused?: number;
}

export interface LostProcess {
	readonly kind: "lost";
	/** What waits for the process was killed: said by its own parent (`"told"`), or inferred from its status (`"seen"`). */
	readonly watcherKilled?: "told" | "seen";
	/** The engine has forgotten the exec, as it does when the container stops. */
	readonly execGone?: boolean;
	readonly cause?: unknown;
}

export interface StartedProcess {
	/** Its pid in the container once the command runs, 0 where it cannot be known; `undefined` when it ended before. Never rejects. */
	readonly pid: Promise<number | undefined>;
	/** Its end, after all its output has been handed over. Never rejects. */
	readonly ended: Promise<ProcessEnd>;
	/** Resolves when the bytes are accepted, or dropped because nobody reads them any more. */
	write(data: Uint8Array): Promise<void>;
	endInput(): Promise<void>;
	resize(size: TerminalSize): Promise<void>;
	/** It is about to be ended: what has not been started yet is not started any more. */
	giveUp(): void;
	/** Drops the connection and all interest in the process, which goes on. */
	close(): void;
}

/** Starts processes. Rejects with the engine's own failure when none can be started. */
export interface ProcessStarter {
	start(target: CommandTarget, spec: ProcessSpec, sink: ExecSink): Promise<StartedProcess>;
}

/** What ends the processes of one command. */
export interface EndSpec {
	readonly marker: string;
	/** 0 when it is not known. */
	readonly pid: number;
	readonly user: string | undefined;
	readonly graceMs: number;
}

/** Ends commands with everything they started. */
export interface TreeEnder {
	/** Resolves when none is left (`[]`), with the pids that could not be ended, or `undefined` when it cannot act in this container. */
	end(target: CommandTarget, spec: EndSpec): Promise<readonly number[] | undefined>;
	/** Signals a command's process group; `false` when there is none. */
	signal(target: CommandTarget, pid: number, user: string | undefined, signalName: string): Promise<boolean>;
}

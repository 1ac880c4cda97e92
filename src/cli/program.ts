/** All commands and their options, as commander knows them. Parsing chooses a command and does nothing else. */
import { Command } from "commander";
import { addCreate } from "./commands/create.js";
import { addExec } from "./commands/exec.js";
import { addImages } from "./commands/images.js";
import { addList } from "./commands/list.js";
import { addPlan } from "./commands/plan.js";
import { addRemove } from "./commands/remove.js";
import { addStop } from "./commands/stop.js";
import { addGlobalOptions } from "./globals.js";
import type { Session } from "./session.js";

/** A command as it was called. */
export interface Call<Flags> {
	readonly session: Session;
	/** The words that are no options. */
	readonly names: readonly string[];
	readonly flags: Flags;
	/** The words of the command that `exec` is to run. */
	readonly inner: readonly string[] | undefined;
}

/** Carries a command out and gives the exit status. */
export type Handler<Flags = object> = (call: Call<Flags>) => Promise<number>;

/** Says what a command does when it is chosen. */
export type Define = <Flags extends object>(command: Command, handler: Handler<Flags>) => void;

export interface Chosen {
	readonly command: Command;
	readonly handler: Handler<never>;
}

export interface ProgramOptions {
	readonly env: Readonly<Record<string, string | undefined>>;
	readonly version: string;
	readonly columns: number | undefined;
	readonly write: (text: string) => void;
	readonly writeError: (text: string) => void;
	readonly choose: (chosen: Chosen) => void;
}

export function buildProgram(options: ProgramOptions): Command {
	const { env, version, write, writeError } = options;
	const program = new Command("sbx")
		.description("Named container sandboxes over persistent workspaces")
		.exitOverride()
		.configureOutput({
			writeOut: write,
			writeErr: writeError,
			outputError: () => {},
			getOutHelpWidth: () => Math.min(options.columns ?? 100, 120),
			getErrHelpWidth: () => Math.min(options.columns ?? 100, 120),
		});
	addGlobalOptions(program, version);
	const define: Define = (command, handler) => {
		addGlobalOptions(command, version);
		command.action(() => options.choose({ command, handler: handler as Handler<never> }));
	};
	addCreate(program, define, env);
	addPlan(program, define, env);
	addExec(program, define, env);
	addList(program, define);
	addStop(program, define);
	addRemove(program, define);
	addImages(program, define);
	return program.addHelpText(
		"after",
		"\nsbx COMMAND --help tells the options of a command. Statuses: see docs/cli.md.",
	);
}

/** The same table as commander knows it: help, suggestions, and every word for what is wrong with a command line. */
import { Command } from "commander";
import { GLOBAL_OPTIONS } from "./globals.js";
import type { Chosen, CommandSpec, OptionSpec } from "./spec.js";

export interface ReaderOptions {
	readonly version: string;
	/** The width of the terminal, where there is one. */
	readonly columns: number | undefined;
	readonly write: (text: string) => void;
	readonly writeError: (text: string) => void;
}

/** What the words ask for; throws commander's error where they are wrong, and where help or the version was told. */
export function readWithCommander(
	words: readonly string[],
	specs: readonly CommandSpec[],
	options: ReaderOptions,
): Chosen {
	let chosen: Chosen | undefined;
	const program = new Command("sbx")
		.description("Named container sandboxes over persistent workspaces")
		.exitOverride()
		.configureOutput({
			writeOut: options.write,
			writeErr: options.writeError,
			outputError: () => {},
			getOutHelpWidth: () => Math.min(options.columns ?? 100, 120),
			getErrHelpWidth: () => Math.min(options.columns ?? 100, 120),
		})
		.addHelpText("after", "\nsbx COMMAND --help tells the options of a command. Statuses: see docs/cli.md.");
	addGlobals(program, options.version);
	for (const spec of specs) {
		const command = addCommand(program, spec);
		addOptions(command, spec.options);
		addGlobals(command, options.version);
		command.action(() => {
			chosen = { spec, names: command.args, flags: command.optsWithGlobals() };
		});
	}
	program.parse(withoutIdleHelp(words, program), { from: "user" });
	if (!chosen) throw new TypeError("commander chose no command and told no error");
	return chosen;
}

function addCommand(program: Command, spec: CommandSpec): Command {
	const [first = "", second] = spec.name.split(" ");
	const group = second === undefined ? program : groupOf(program, first);
	const command = group.command(second ?? first).description(spec.description);
	nameInErrors(command, spec.name);
	if (spec.alias) command.alias(spec.alias);
	if (spec.usage) command.usage(spec.usage);
	for (const { form, description } of spec.arguments ?? []) command.argument(form, description);
	return command;
}

function groupOf(program: Command, name: string): Command {
	const known = program.commands.find((candidate) => candidate.name() === name);
	return known ?? nameInErrors(program.command(name).description(`the ${name} of the runtimes`), name);
}

/** Puts the command's words on the errors of its command line. */
function nameInErrors(command: Command, name: string): Command {
	return command.exitOverride((error) => {
		throw Object.assign(error, { command: name });
	});
}

/** `help NOSUCH` as `NOSUCH`, which is refused by name; commander would tell the help of all. */
function withoutIdleHelp(words: readonly string[], program: Command): readonly string[] {
	const [first, second] = words;
	if (first !== "help" || second === undefined || second.startsWith("-") || second === "help") return words;
	const isKnown = program.commands.some((known) => known.name() === second || known.aliases().includes(second));
	return isKnown ? words : words.slice(1);
}

function addOptions(command: Command, options: readonly OptionSpec[]): void {
	for (const { flags, description, parse } of options) {
		if (parse) command.option(flags, description, parse as (text: string, previous: unknown) => unknown);
		else command.option(flags, description);
	}
}

function addGlobals(command: Command, version: string): void {
	command.optionsGroup("Global options:");
	addOptions(command, GLOBAL_OPTIONS);
	command.version(version, "-V, --version", "print the version").helpOption("-h, --help", "print this help");
}

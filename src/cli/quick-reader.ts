/**
 * Reads command lines in which nothing is wrong, and leaves all others to commander, which knows how to say what is: loading
 * and setting up commander is a fifth of the time that a short command takes.
 */
import { GLOBAL_OPTIONS } from "./globals.js";
import { type Chosen, type CommandSpec, type Flag, flagOf, type OptionSpec } from "./spec.js";

/** What the words ask for; `undefined` where they are not plainly right. A value that its option refuses throws `invalid_input`. */
export function readQuickly(words: readonly string[], specs: readonly CommandSpec[]): Chosen | undefined {
	const globals = optionTable(GLOBAL_OPTIONS);
	const before = readOptions(words, 0, globals, {});
	const found = before && findCommand(words, before.at, specs);
	if (!found) return undefined;
	const options = new Map([...globals, ...optionTable(found.spec.options)]);
	const names: string[] = [];
	let read = readOptions(words, found.next, options, before.flags);
	while (read && read.at < words.length) {
		const word = words[read.at] ?? "";
		if (word === "--") {
			names.push(...words.slice(read.at + 1));
			break;
		}
		names.push(word);
		read = readOptions(words, read.at + 1, options, read.flags);
	}
	return read && takes(found.spec, names.length) ? { spec: found.spec, names, flags: read.flags } : undefined;
}

type OptionTable = ReadonlyMap<string, Flag & Pick<OptionSpec, "parse">>;
type Flags = Readonly<Record<string, unknown>>;

function optionTable(options: readonly OptionSpec[]): OptionTable {
	const table = new Map<string, Flag & Pick<OptionSpec, "parse">>();
	for (const option of options) {
		const entry = { ...flagOf(option), ...(option.parse ? { parse: option.parse } : {}) };
		table.set(entry.long, entry);
		if (entry.short) table.set(entry.short, entry);
	}
	return table;
}

/** Reads options up to the next word that is none; `undefined` at one that is not known or not whole. */
function readOptions(
	words: readonly string[],
	from: number,
	table: OptionTable,
	given: Flags,
): { readonly at: number; readonly flags: Flags } | undefined {
	let at = from;
	let flags = given;
	for (let word = words[at]; word?.startsWith("-") && word !== "-" && word !== "--"; word = words[at]) {
		const equals = word.startsWith("--") ? word.indexOf("=") : -1;
		const option = table.get(equals < 0 ? word : word.slice(0, equals));
		if (!option || (equals >= 0 && !option.takesValue)) return undefined;
		const value = !option.takesValue ? true : equals >= 0 ? word.slice(equals + 1) : words[at + 1];
		if (value === undefined) return undefined;
		at += option.takesValue && equals < 0 ? 2 : 1;
		const parsed = typeof value === "string" && option.parse ? option.parse(value, flags[option.key] as never) : value;
		flags = { ...flags, [option.key]: parsed };
	}
	return { at, flags };
}

function findCommand(
	words: readonly string[],
	at: number,
	specs: readonly CommandSpec[],
): { readonly spec: CommandSpec; readonly next: number } | undefined {
	for (const spec of specs) {
		const parts = spec.name.split(" ");
		const last = parts.length - 1;
		const matches = parts.every((part, index) => {
			const word = words[at + index];
			return word === part || (index === last && word === spec.alias);
		});
		if (matches) return { spec, next: at + parts.length };
	}
	return undefined;
}

function takes({ arguments: all = [] }: CommandSpec, count: number): boolean {
	const least = all.filter(({ form }) => form.startsWith("<")).length;
	const anyMore = all.at(-1)?.form.includes("...") ?? false;
	return count === least || (count > least && anyMore);
}

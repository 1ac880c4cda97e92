/** Tells the program's own words from those of the command that `exec` is to run, which nothing of ours may read. */
import { GLOBAL_OPTIONS } from "./globals.js";
import { type CommandSpec, flagOf, type OptionSpec } from "./spec.js";

export interface Words {
	/** The name of the command as it was written, if there is one. */
	readonly name: string | undefined;
	/** What is ours to parse. */
	readonly own: readonly string[];
	/** The words of the command inside, untouched; `undefined` where there are none. */
	readonly inner: readonly string[] | undefined;
}

/**
 * Splits the words. `exec NAME -- WORDS` and `exec NAME WORDS` hand WORDS on; options of ours stand before them. All other
 * commands have no such words.
 */
export function splitWords(argv: readonly string[], specs: readonly CommandSpec[]): Words {
	const takesValue = valueOptions(GLOBAL_OPTIONS);
	const at = nextPositional(argv, 0, takesValue);
	const name = argv[at];
	const command = specs.find((candidate) => candidate.name === "exec");
	if (name !== "exec" || !command) return { name, own: argv, inner: undefined };
	const takesValueInside = new Set([...takesValue, ...valueOptions(command.options)]);
	const sandbox = nextPositional(argv, at + 1, takesValueInside);
	if (argv[sandbox] === "--") return split(name, argv, sandbox, sandbox + 1);
	const first = nextPositional(argv, sandbox + 1, takesValueInside);
	return split(name, argv, first, argv[first] === "--" ? first + 1 : first);
}

/** Whether `--json` is among our words as an option, not as the value of another. */
export function asksForJson({ name, own }: Words, specs: readonly CommandSpec[]): boolean {
	const called = specs.filter((spec) => spec.name.split(" ")[0] === name || spec.alias === name);
	const takesValue = valueOptions([...GLOBAL_OPTIONS, ...called.flatMap((spec) => spec.options)]);
	for (let index = 0; index < own.length; index++) {
		const word = own[index] ?? "";
		if (word === "--") return false;
		if (word === "--json") return true;
		if (word.startsWith("-") && takesNext(word, takesValue)) index++;
	}
	return false;
}

function split(name: string, argv: readonly string[], end: number, start: number): Words {
	return { name, own: argv.slice(0, end), inner: start < argv.length ? argv.slice(start) : undefined };
}

/** The flags, short and long, that take a value. */
function valueOptions(options: readonly OptionSpec[]): ReadonlySet<string> {
	const flags = options.map(flagOf).filter(({ takesValue }) => takesValue);
	return new Set(flags.flatMap(({ short, long }) => (short ? [short, long] : [long])));
}

/** The index of the next word that is neither an option nor an option's value, of `--`, or the end. */
function nextPositional(argv: readonly string[], from: number, takesValue: ReadonlySet<string>): number {
	let index = from;
	for (let word = argv[index]; word !== undefined; word = argv[index]) {
		if (word === "--" || word === "-" || !word.startsWith("-")) return index;
		index += takesNext(word, takesValue) ? 2 : 1;
	}
	return argv.length;
}

/** Whether the value of an option is the word after it: `--env K=V`, `-e K=V`, `-ie K=V`, but not `--env=K=V` or `-eK=V`. */
function takesNext(word: string, takesValue: ReadonlySet<string>): boolean {
	if (word.startsWith("--")) return takesValue.has(word);
	for (let index = 1; index < word.length; index++) {
		if (takesValue.has(`-${word[index]}`)) return index === word.length - 1;
	}
	return false;
}

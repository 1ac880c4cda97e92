/** What a command is, as data: one table that two readers follow, a quick one and commander. */
import type { Session } from "./session.js";

/** An option of a command. */
export interface OptionSpec {
	/** As commander writes them: `-e, --env <name=value>`; without `<…>` it is a switch. */
	readonly flags: string;
	readonly description: string;
	/** The value of the text; given the previous value where the option may be repeated. Throws `invalid_input`. */
	readonly parse?: (text: string, previous: never) => unknown;
}

/** A word of a command that is no option. */
interface ArgumentSpec {
	/** `<name>` is one word; as the last, `<name...>` is one or more and `[name...]` any number. */
	readonly form: string;
	readonly description: string;
}

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
export type Handler<Flags> = (call: Call<Flags>) => Promise<number>;

export interface CommandSpec {
	/** One word, or two for a command of a group: `images list`. */
	readonly name: string;
	/** Another name for its last word. */
	readonly alias?: string;
	readonly description: string;
	/** Left out where it takes none. */
	readonly arguments?: readonly ArgumentSpec[];
	readonly usage?: string;
	/** Made when they are asked for, where they are many. */
	readonly options: readonly OptionSpec[];
	readonly handler: Handler<never>;
}

/** A command with its options' values typed for its handler. */
export function command<Flags extends object>(
	spec: Omit<CommandSpec, "handler"> & { readonly handler: Handler<Flags> },
): CommandSpec {
	return spec as CommandSpec;
}

/** What the words on the command line ask for. */
export interface Chosen {
	readonly spec: CommandSpec;
	readonly names: readonly string[];
	/** Values of all options that were given, the global ones among them, by the option's long name in camel case. */
	readonly flags: Readonly<Record<string, unknown>>;
}

/** The flags of an option taken apart. */
export interface Flag {
	readonly short: string | undefined;
	readonly long: string;
	readonly takesValue: boolean;
	/** The key of its value: `shmSize` for `--shm-size`. */
	readonly key: string;
}

export function flagOf({ flags }: OptionSpec): Flag {
	const [, short, long = "", value] = /^(?:(-\w), )?(--[\w-]+)(?: (<.+>))?$/.exec(flags) ?? [];
	const key = long.slice(2).replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
	return { short, long, takesValue: value !== undefined, key };
}

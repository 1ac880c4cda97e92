import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readWithCommander } from "../../src/cli/commander-reader.js";
import { allCommands } from "../../src/cli/commands.js";
import { GLOBAL_OPTIONS } from "../../src/cli/globals.js";
import { readQuickly } from "../../src/cli/quick-reader.js";
import { flagOf, type OptionSpec } from "../../src/cli/spec.js";

const specs = allCommands({ HOME: "/home/me" });
const silent = { version: "0", columns: 80, write: () => {}, writeError: () => {} };

/** A text that each option with a parser takes; all others take any word. */
const VALUES: Readonly<Record<string, string>> = {
	"--memory": "512m",
	"--shm-size": "64m",
	"--cpus": "0.5",
	"--pids": "99",
	"--idle-timeout": "30s",
	"--max-lifetime": "1h",
	"--stop-grace": "5s",
	"--timeout": "2s",
	"--tail": "5",
	"--network": "none",
	"--publish": "8080:3000/udp",
	"--mount": "/a:/b:rw",
};
const word = fc.stringMatching(/^[a-z0-9][a-z0-9=:.-]{0,8}$/);

function optionWords(option: OptionSpec): fc.Arbitrary<string[]> {
	const { short, long, takesValue } = flagOf(option);
	const name = fc.constantFrom(...(short ? [short, long] : [long]));
	if (!takesValue) return name.map((flag) => [flag]);
	const known = VALUES[long];
	const value = known === undefined ? word : fc.constant(known);
	const joined = value.map((text) => [`${long}=${text}`]);
	return fc.oneof(
		fc.tuple(name, value).map((pair) => [...pair]),
		joined,
	);
}

const line = fc.constantFrom(...specs).chain((spec) => {
	const options = fc.array(fc.oneof(...[...spec.options, ...GLOBAL_OPTIONS].map(optionWords)), { maxLength: 4 });
	const globals = fc.array(fc.oneof(...GLOBAL_OPTIONS.map(optionWords)), { maxLength: 2 });
	const forms = (spec.arguments ?? []).map(({ form }) => form);
	const least = forms.filter((form) => form.startsWith("<")).length;
	const names = fc.array(word, {
		minLength: least,
		maxLength: forms.at(-1)?.includes("...") ? least + 2 : least,
	});
	return fc
		.tuple(globals, options, names, options)
		.map(([before, first, words, last]) => [
			...before.flat(),
			...spec.name.split(" "),
			...first.flat(),
			...words,
			...last.flat(),
		]);
});

describe("the quick reader", () => {
	test("reads every right command line as commander does", () => {
		fc.assert(
			fc.property(line, (words) => {
				const quick = readQuickly(words, specs);
				const thorough = readWithCommander(words, specs, silent);
				expect(quick?.spec.name).toBe(thorough.spec.name);
				expect(quick?.names).toEqual(thorough.names);
				expect({ ...quick?.flags }).toEqual({ ...thorough.flags });
			}),
			{ numRuns: 300 },
		);
	});

	test.each([
		["an unknown command", ["lst"]],
		["an unknown option", ["list", "--jsno"]],
		["no command", []],
		["help", ["list", "--help"]],
		["the version", ["list", "--version"]],
		["an option without its value", ["create", "w", "--memory"]],
		["a switch with a value", ["list", "--json=yes"]],
		["too many words", ["list", "x"]],
		["too few words", ["create"]],
		["one word of two", ["wait", "w"]],
		["no word where many may be", ["kill", "w"]],
		["a third word of two", ["logs", "w", "a", "b"]],
		["half a command", ["images"]],
		["switches in one word", ["exec", "-it", "w"]],
	])("leaves %s to commander", (_, words) => {
		expect(readQuickly(words, specs)).toBeUndefined();
	});

	test("words behind -- are names, whatever they look like", () => {
		expect(readQuickly(["rm", "--", "--all"], specs)).toMatchObject({ names: ["--all"], flags: {} });
	});
});

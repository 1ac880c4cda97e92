/** Program text as a command that runs it and leaves no file anywhere. */
import { asRecord, invalid, refuseUnknownKeys } from "../primitives/checks.js";
import { EXEC_OPTION_NAMES, type ExecOptions, type ExecRequest, MAX_ARGUMENT_BYTES, normaliseExec } from "./request.js";

/** What program text can be written in; the image has to have it. */
export type CodeLanguage = "python" | "node" | "sh";

/** How program text is run: as a command is, with arguments for the program. */
export interface CodeOptions extends ExecOptions {
	/** What the program finds as its arguments: `sys.argv[1:]`, `process.argv.slice(1)`, `"$@"`. */
	readonly args?: readonly string[];
}

interface Interpreter {
	/** The text as an argument. */
	inline(source: string): readonly string[];
	/** The text on standard input, read to its end before the program begins. */
	readonly piped: readonly string[];
	readonly env: Readonly<Record<string, string>>;
}

const NODE_PIPED = `const vm = require("vm");
vm.runInThisContext(require("fs").readFileSync(0, "utf8"), {
	filename: "[stdin]",
	importModuleDynamically: vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER,
});`;

const INTERPRETERS: Readonly<Record<CodeLanguage, Interpreter>> = {
	python: {
		inline: (source) => ["python3", "-c", source],
		piped: ["python3", "-c", "import sys; exec(compile(sys.stdin.buffer.read(), '<stdin>', 'exec'))"],
		// A program that imports modules of the workspace must not leave __pycache__ there.
		env: { PYTHONDONTWRITEBYTECODE: "1" },
	},
	node: { inline: (source) => ["node", "-e", source, "--"], piped: ["node", "-e", NODE_PIPED, "--"], env: {} },
	sh: { inline: (source) => ["sh", "-c", source, "sh"], piped: ["sh", "-c", 'eval "$(cat)"', "sh"], env: {} },
};

/** The checked command that runs the text. Fails with `invalid_input` before anything happens. */
export function normaliseCode(language: unknown, source: unknown, rawOptions: unknown = {}): ExecRequest {
	if (typeof language !== "string" || !Object.hasOwn(INTERPRETERS, language)) {
		throw invalid(
			"language",
			Object.keys(INTERPRETERS)
				.map((name) => `"${name}"`)
				.join(", "),
			language,
		);
	}
	if (typeof source !== "string") throw invalid("source", "program text", source);
	if (source.includes("\0")) throw invalid("source", "program text without NUL", source);
	const { args = [], ...options } = asRecord("options", rawOptions);
	refuseUnknownKeys("run", options, [...EXEC_OPTION_NAMES, "args"]);
	if (!Array.isArray(args)) throw invalid("args", "an array of strings", args);
	const { inline, piped, env } = INTERPRETERS[language as CodeLanguage];
	const given = options["env"] === undefined ? {} : asRecord("env", options["env"]);
	const withDefaults = { ...options, env: { ...env, ...given } };
	if (Buffer.byteLength(source) <= MAX_ARGUMENT_BYTES) {
		return normaliseExec([...inline(source), ...args], withDefaults);
	}
	if (options["stdin"] !== undefined) {
		throw invalid(
			"source",
			`at most ${MAX_ARGUMENT_BYTES} bytes beside stdin`,
			source,
			"put it into a file, or leave stdin out",
		);
	}
	return normaliseExec([...piped, ...args], { ...withDefaults, stdin: source });
}

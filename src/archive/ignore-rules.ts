/** The rules of a `.dockerignore` file: which paths of a build context are left out. */
import { posix } from "node:path";
import { SandboxError } from "../primitives/errors.js";

interface Rule {
	readonly readmits: boolean;
	/** Matches a path that the pattern names, and everything beneath it. */
	readonly matches: RegExp;
	/** One for each leading part of the pattern; ends before the first `**`. */
	readonly parts: readonly RegExp[];
	readonly anyDepth: boolean;
}

/** What a list of patterns says about paths, which are relative, with slashes, and without a leading `./`. */
export interface IgnoreRules {
	/** Whether the path is left out. The last rule that matches it or a directory above it decides. */
	ignores(path: string): boolean;
	/** Whether a later rule may take back in something beneath a directory that is left out. */
	mayReadmitBeneath(directory: string): boolean;
}

/**
 * Reads the text of a `.dockerignore`: one pattern a line, `#` at the start of a line for comments, `!` to take back in,
 * `*` and `?` within a name, `**` over any number of directories, character classes, and `\` before a plain character.
 * A leading or trailing slash changes nothing. A pattern that cannot be read throws `invalid_input` with its line.
 */
export function parseIgnoreRules(text: string): IgnoreRules {
	const rules: Rule[] = [];
	for (const [index, line] of text
		.replace(/^\uFEFF/, "")
		.split("\n")
		.entries()) {
		const rule = line.startsWith("#") ? undefined : parseRule(line.trim(), index + 1);
		if (rule) rules.push(rule);
	}
	const readmitting = rules.filter((rule) => rule.readmits);
	return {
		ignores(path) {
			let ignored = false;
			for (const rule of rules) if (rule.readmits === ignored && rule.matches.test(path)) ignored = !ignored;
			return ignored;
		},
		mayReadmitBeneath(directory) {
			const names = directory.split("/");
			return readmitting.some(
				(rule) =>
					(rule.anyDepth || rule.parts.length > names.length) &&
					rule.parts.slice(0, names.length).every((part, depth) => part.test(names[depth] ?? "")),
			);
		},
	};
}

function parseRule(line: string, lineNumber: number): Rule | undefined {
	const readmits = line.startsWith("!");
	const written = readmits ? line.slice(1).trim() : line;
	if (written === "") return undefined;
	const pattern = posix.normalize(written).replace(/^\/+/, "").replace(/\/+$/, "");
	if (pattern === "" || pattern === ".") return undefined;
	try {
		const names = pattern.split("/");
		const firstAnyDepth = names.findIndex((name) => name.includes("**"));
		return {
			readmits,
			matches: new RegExp(`^(?:${toRegExp(pattern)})(?:/.*)?$`, "s"),
			parts: names
				.slice(0, firstAnyDepth < 0 ? undefined : firstAnyDepth)
				.map((name) => new RegExp(`^${toRegExp(name)}$`, "s")),
			anyDepth: firstAnyDepth >= 0,
		};
	} catch (cause) {
		throw new SandboxError("invalid_input", `.dockerignore line ${lineNumber}: cannot read the pattern "${line}"`, {
			details: { field: ".dockerignore", expected: "a pattern on each line", received: line },
			cause,
		});
	}
}

/** The pattern as the source of a regular expression. */
function toRegExp(pattern: string): string {
	let source = "";
	for (let at = 0; at < pattern.length; at++) {
		const char = pattern.charAt(at);
		if (char === "*" && pattern[at + 1] === "*") {
			at += pattern[at + 2] === "/" ? 2 : 1;
			source += at + 1 >= pattern.length ? ".*" : "(?:.*/)?";
		} else if (char === "*") {
			source += "[^/]*";
		} else if (char === "?") {
			source += "[^/]";
		} else if (char === "[") {
			const end = pattern.indexOf("]", at + (pattern[at + 1] === "^" ? 3 : 2));
			if (end < 0) throw new SyntaxError("a character class has no end");
			source += `(?!/)${pattern.slice(at, end + 1)}`;
			at = end;
		} else if (char === "\\") {
			at += 1;
			if (at >= pattern.length) throw new SyntaxError("nothing follows the last backslash");
			source += escaped(pattern.charAt(at));
		} else {
			source += escaped(char);
		}
	}
	return source;
}

function escaped(char: string): string {
	return /[\\^$.*+?()[\]{}|/]/.test(char) ? `\\${char}` : char;
}

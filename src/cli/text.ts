/** Text for people: tables, and what came from elsewhere made harmless for a terminal. */

/** One line without control characters: names, build output and engine messages may hold anything. */
export function toLine(text: string): string {
	// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for.
	return text.replace(/\x1b\[[0-9;?]*[ -/]*[@-~]/g, "").replace(/[\x00-\x1f\x7f-\x9f]+/g, " ");
}

/** The same for a text of several lines, which stay. */
export function toLines(text: string): string {
	return text.split(/\r?\n/).map(toLine).join("\n");
}

/** The text with control characters, and those that turn or hide what follows, as escapes: `\n`, `\u001b`. */
export function toVisible(text: string): string {
	// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for.
	return text.replace(/[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (character) => {
		const short = { "\n": "\\n", "\r": "\\r", "\t": "\\t" }[character];
		return short ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
	});
}

/** Columns by spaces, upper-case heads, no borders; the last column is not padded. */
export function toTable(heads: readonly string[], rows: readonly (readonly string[])[]): string {
	const lines = [heads.map((head) => head.toUpperCase()), ...rows.map((row) => row.map(toLine))];
	const widths = heads.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
	return lines
		.map((line) =>
			line
				.map((cell, column) => cell.padEnd(widths[column] ?? 0))
				.join("   ")
				.trimEnd(),
		)
		.map((line) => `${line}\n`)
		.join("");
}

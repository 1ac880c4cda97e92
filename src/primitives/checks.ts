/** Refusing bad input: what a field must be, in one sentence that names field, expectation, value and type. */
import { SandboxError } from "./errors.js";

/** A value as it may be shown in a message: short, quoted, never a whole object. */
export function show(value: unknown): string {
	if (typeof value === "string")
		return `${JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value)} (string)`;
	if (value === null || value === undefined) return String(value);
	if (typeof value === "number" || typeof value === "boolean" || typeof value === "bigint")
		return `${value} (${typeof value})`;
	if (Array.isArray(value)) return `an array of ${value.length}`;
	return `a value of type ${typeof value}`;
}

/** The error for a refused field. `tip` ends the sentence, as in "use MiB(512)". */
export function invalid(field: string, expected: string, value: unknown, tip?: string): SandboxError<"invalid_input"> {
	const received = show(value);
	return new SandboxError("invalid_input", `${field}: expected ${expected}, got ${received}${tip ? `; ${tip}` : ""}`, {
		details: { field, expected, received },
	});
}

/** The value as a plain record, or a refusal. Class instances, arrays and null are refused. */
export function asRecord(field: string, value: unknown): Readonly<Record<string, unknown>> {
	if (typeof value !== "object" || value === null || Array.isArray(value)) throw invalid(field, "an object", value);
	return value as Readonly<Record<string, unknown>>;
}

/** Refuses every key that is not known, and names the nearest one that is. */
export function refuseUnknownKeys(
	field: string,
	record: Readonly<Record<string, unknown>>,
	known: readonly string[],
): void {
	for (const key of Object.keys(record)) {
		if (known.includes(key)) continue;
		const near = nearest(key, known);
		throw new SandboxError(
			"invalid_input",
			`${field}: unknown option "${key}"${near ? `; did you mean "${near}"?` : "."} Known: ${known.join(", ")}`,
			{ details: { field: `${field}.${key}`, expected: `one of ${known.join(", ")}`, received: key } },
		);
	}
}

/** The known word with the smallest edit distance, if it is near enough to be meant. */
export function nearest(word: string, known: readonly string[]): string | undefined {
	let best: string | undefined;
	let bestDistance = Math.max(2, Math.floor(word.length / 3)) + 1;
	for (const candidate of known) {
		const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
		const distanceOrPrefix = candidate.toLowerCase().startsWith(word.toLowerCase()) && word.length >= 3 ? 1 : distance;
		if (distanceOrPrefix < bestDistance) {
			best = candidate;
			bestDistance = distanceOrPrefix;
		}
	}
	return best;
}

function editDistance(a: string, b: string): number {
	let previous = Array.from({ length: b.length + 1 }, (_, index) => index);
	for (let i = 1; i <= a.length; i++) {
		const current = [i];
		for (let j = 1; j <= b.length; j++) {
			const cost = a[i - 1] === b[j - 1] ? 0 : 1;
			current[j] = Math.min((previous[j] ?? 0) + 1, (current[j - 1] ?? 0) + 1, (previous[j - 1] ?? 0) + cost);
		}
		previous = current;
	}
	return previous[b.length] ?? 0;
}

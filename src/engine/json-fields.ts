/** Reading fields of the engine's JSON without trusting its form: an absent or odd field gives an empty value. */
export type JsonObject = Readonly<Record<string, unknown>>;

export function isJsonObject(value: unknown): value is JsonObject {
	return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function objectOf(value: unknown): JsonObject {
	return isJsonObject(value) ? value : {};
}

export function listOf(value: unknown): readonly unknown[] {
	return Array.isArray(value) ? value : [];
}

export function textOf(value: unknown): string {
	return typeof value === "string" ? value : "";
}

export function numberOf(value: unknown): number {
	return typeof value === "number" && Number.isFinite(value) ? value : 0;
}

/** The members that are text, as own properties of a plain record. */
export function textMapOf(value: unknown): Readonly<Record<string, string>> {
	return Object.fromEntries(
		Object.entries(objectOf(value)).filter((entry): entry is [string, string] => typeof entry[1] === "string"),
	);
}

/** The items that are text. */
export function textsOf(value: unknown): readonly string[] {
	return listOf(value).filter((item): item is string => typeof item === "string");
}

/** A list of `NAME=value` as a record; the last of a name counts. */
export function environmentOf(value: unknown): Readonly<Record<string, string>> {
	return Object.fromEntries(
		textsOf(value).map((pair) => {
			const cut = pair.indexOf("=");
			return cut < 0 ? [pair, ""] : [pair.slice(0, cut), pair.slice(cut + 1)];
		}),
	);
}

/** Milliseconds since the epoch of an RFC 3339 time; 0 for the engine's year 1 ("never") and anything unreadable. */
export function timeOf(value: unknown): number {
	const ms = typeof value === "string" ? Date.parse(value) : Number.NaN;
	return Number.isFinite(ms) && ms > 0 ? ms : 0;
}

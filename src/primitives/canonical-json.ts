/** JSON with one form for one value (RFC 8785): keys sorted by UTF-16 code units, no white space. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json | undefined };

/** The canonical text. Members that are `undefined` are left out; a number that JSON cannot hold is refused. */
export function canonicalJson(value: Json): string {
	if (value === null || typeof value === "boolean" || typeof value === "string") return JSON.stringify(value);
	if (typeof value === "number") {
		if (!Number.isFinite(value)) throw new TypeError(`canonical JSON cannot hold ${value}`);
		return JSON.stringify(value);
	}
	if (isList(value)) return `[${value.map(canonicalJson).join(",")}]`;
	const members: string[] = [];
	for (const key of Object.keys(value).sort()) {
		const member = value[key];
		if (member !== undefined) members.push(`${JSON.stringify(key)}:${canonicalJson(member)}`);
	}
	return `{${members.join(",")}}`;
}

function isList(value: Json): value is readonly Json[] {
	return Array.isArray(value);
}

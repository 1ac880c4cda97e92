/** Image references: their parts, and whether a text is one at all. Knows no engine. */
import { invalid } from "../primitives/checks.js";
import type { SandboxError } from "../primitives/errors.js";

/** An image by its name in a registry. */
export interface NamedReference {
	readonly kind: "name";
	/** The registry: `docker.io` where the text names none. */
	readonly domain: string;
	/** The repository within the registry: `library/node` for `node`. */
	readonly path: string;
	readonly tag?: string;
	/** `sha256:…` */
	readonly digest?: string;
}

/** An image by its content id, which no registry can be asked for. */
export interface IdReference {
	readonly kind: "id";
	/** `sha256:` and 64 hexadecimal digits. */
	readonly id: string;
}

export type Reference = NamedReference | IdReference;

const DEFAULT_DOMAIN = "docker.io";
const OFFICIAL = "library/";
const MAX_NAME_LENGTH = 255;

const DOMAIN = /^(?:[a-zA-Z0-9]+(?:[.-]+[a-zA-Z0-9]+)*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?$/;
const COMPONENT = /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$/;
const TAG = /^[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}$/;
const DIGESTS: ReadonlyMap<string, RegExp> = new Map([
	["sha256", /^[0-9a-f]{64}$/],
	["sha384", /^[0-9a-f]{96}$/],
	["sha512", /^[0-9a-f]{128}$/],
]);

/**
 * Reads an image reference: `[registry/]repository[:tag][@digest]`, or an image id (`sha256:` and 64 hexadecimal digits, or
 * the digits alone). Throws `invalid_input` that says which part is wrong.
 */
export function parseReference(text: unknown, field = "image"): Reference {
	if (typeof text !== "string") throw invalid(field, 'an image reference such as "node:22-bookworm-slim"', text);
	if (text === "") throw invalid(field, 'an image reference such as "node:22-bookworm-slim"', text);
	const id = /^(?:sha256:)?([0-9a-f]{64})$/.exec(text)?.[1];
	if (id) return { kind: "id", id: `sha256:${id}` };

	const { name, tag, digest } = split(text);
	if (digest !== undefined) checkDigest(field, text, digest);
	if (tag !== undefined && !TAG.test(tag)) throw bad(field, text, "a tag of at most 128 letters, digits, _ . and -");
	const { domain, path } = splitName(name);
	if (!DOMAIN.test(domain)) throw bad(field, text, "a registry such as registry.example:5000 before the first slash");
	for (const component of path.split("/")) {
		if (COMPONENT.test(component)) continue;
		if (COMPONENT.test(component.toLowerCase()))
			throw bad(field, text, "a repository name in lower case", `try "${text.replace(name, name.toLowerCase())}"`);
		throw bad(field, text, "a repository name of lower-case letters and digits, with single . or _ or - between them");
	}
	if (domain.length + 1 + path.length > MAX_NAME_LENGTH)
		throw bad(field, text, `a name of at most ${MAX_NAME_LENGTH} characters`);
	return {
		kind: "name",
		domain,
		path,
		...(tag === undefined ? {} : { tag }),
		...(digest === undefined ? {} : { digest }),
	};
}

/**
 * The reference as people and engines write it: Docker's own registry and its `library/` are left unsaid; a name with
 * neither tag nor digest gets `:latest`, since an engine asked for less would fetch every tag.
 */
export function toText(reference: Reference): string {
	if (reference.kind === "id") return reference.id;
	const { domain, path, tag, digest } = reference;
	const name = domain === DEFAULT_DOMAIN ? familiar(path) : `${domain}/${path}`;
	const version = tag ?? (digest === undefined ? "latest" : undefined);
	return `${name}${version === undefined ? "" : `:${version}`}${digest === undefined ? "" : `@${digest}`}`;
}

function split(text: string): { name: string; tag?: string; digest?: string } {
	const at = text.indexOf("@");
	const digest = at < 0 ? {} : { digest: text.slice(at + 1) };
	const named = at < 0 ? text : text.slice(0, at);
	const colon = named.indexOf(":", named.lastIndexOf("/") + 1);
	return colon < 0
		? { name: named, ...digest }
		: { name: named.slice(0, colon), tag: named.slice(colon + 1), ...digest };
}

/** What stands before the first slash is a registry only if it looks like one: a dot, a port, or `localhost`. */
function splitName(name: string): { domain: string; path: string } {
	const slash = name.indexOf("/");
	const first = name.slice(0, Math.max(slash, 0));
	if (slash < 0 || !(/[.:]/.test(first) || first === "localhost"))
		return { domain: DEFAULT_DOMAIN, path: slash < 0 ? OFFICIAL + name : name };
	const domain = first === "index.docker.io" ? DEFAULT_DOMAIN : first;
	const path = name.slice(slash + 1);
	return { domain, path: domain === DEFAULT_DOMAIN && !path.includes("/") ? OFFICIAL + path : path };
}

/** The path without `library/`, where the shorter form would be read as the same. */
function familiar(path: string): string {
	const short = path.startsWith(OFFICIAL) ? path.slice(OFFICIAL.length) : path;
	return short.includes("/") ? path : short;
}

function checkDigest(field: string, text: string, digest: string): void {
	const colon = digest.indexOf(":");
	const digits = DIGESTS.get(digest.slice(0, Math.max(colon, 0)));
	if (!digits?.test(digest.slice(colon + 1)))
		throw bad(field, text, "a digest such as @sha256: and 64 hexadecimal digits");
}

function bad(field: string, text: string, expected: string, tip?: string): SandboxError<"invalid_input"> {
	return invalid(field, expected, text, tip);
}

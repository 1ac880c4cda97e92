/** One parser for each kind of argument, shared by all commands. Each gives the library's value or throws `invalid_input`. */
import { resolve } from "node:path";
import { type Bytes, type MountOption, type PortOption, parseDuration, parseSize, SandboxError } from "../index.js";

/** The refusal of an argument: which option, what it takes, what it got. */
export function refuse(
	option: string,
	expected: string,
	received: string,
	hint?: string,
): SandboxError<"invalid_input"> {
	return new SandboxError("invalid_input", `${option}: expected ${expected}, got "${received}"`, {
		details: { field: option, expected, received },
		...(hint === undefined ? {} : { hint }),
	});
}

/** `512m`, `2g`, `1.5GiB`. */
export function sizeOf(option: string): (text: string) => Bytes {
	return (text) => parseSize(text, option);
}

/** `30s`, `5m`, `1h30m`; `0` and `none` are no limit. */
export function durationOf(option: string): (text: string) => number {
	return (text) => (text.trim().toLowerCase() === "none" ? 0 : parseDuration(text, option));
}

/** `0.5`, `2`. */
export function numberOf(option: string): (text: string) => number {
	return (text) => {
		if (!/^\d+(\.\d+)?$/.test(text.trim())) throw refuse(option, "a number such as 1 or 0.5", text);
		return Number(text);
	};
}

/** `512`. */
export function wholeOf(option: string): (text: string) => number {
	return (text) => {
		if (!/^\d{1,15}$/.test(text.trim())) throw refuse(option, "a whole number", text);
		return Number(text);
	};
}

/** One of a few words. */
export function oneOf<const Word extends string>(option: string, words: readonly Word[]): (text: string) => Word {
	return (text) => {
		const word = words.find((candidate) => candidate === text);
		if (word === undefined) throw refuse(option, words.join(" or "), text);
		return word;
	};
}

/** `K=V`, as often as given; `K` alone takes the caller's value, and is left out where the caller has none. */
export function envFrom(caller: Readonly<Record<string, string | undefined>>) {
	return (text: string, previous: Readonly<Record<string, string>> = {}): Readonly<Record<string, string>> => {
		const [name, value = caller[name]] = splitPair("--env", text);
		return value === undefined ? previous : withEntry(previous, name, value);
	};
}

/** `K=V`, as often as given; `K` alone has the empty value. */
export function labelOf(
	text: string,
	previous: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string>> {
	const [name, value = ""] = splitPair("--label", text);
	return withEntry(previous, name, value);
}

/** `3000` (any free port of the host), `8080:3000`, `8080:3000/udp`, `0.0.0.0:8080:3000`, `[::1]:8080:3000`; as often as given. */
export function publishOf(text: string, previous: readonly PortOption[] = []): readonly PortOption[] {
	const match = /^(?:(?:(\[[0-9a-fA-F:.]+\]|\d+(?:\.\d+){3}):)?(\d{0,5}):)?(\d{1,5})(?:\/(tcp|udp))?$/.exec(
		text.trim(),
	);
	if (!match) throw refuse("--publish", "a port such as 3000, 8080:3000 or 8080:3000/udp", text);
	const [, hostIp, hostPort, port, protocol] = match;
	return [
		...previous,
		{
			port: Number(port),
			...(protocol === undefined ? {} : { protocol: protocol === "udp" ? "udp" : "tcp" }),
			...(hostPort === undefined || hostPort === "" ? {} : { hostPort: Number(hostPort) }),
			...(hostIp === undefined ? {} : { hostIp: hostIp.replace(/^\[|\]$/g, "") }),
		},
	];
}

/** `SRC:DST`, read-only unless it ends in `:rw`; SRC may be relative to the current directory; as often as given. */
export function mountOf(text: string, previous: readonly MountOption[] = []): readonly MountOption[] {
	const match = /^(.+):(\/[^:]*)(?::(rw|ro))?$/.exec(text);
	const [, source, target, mode] = match ?? [];
	if (source === undefined || target === undefined) {
		throw refuse("--mount", "SRC:DST or SRC:DST:rw, with an absolute DST", text);
	}
	return [...previous, { source: resolve(source), target, readOnly: mode !== "rw" }];
}

function splitPair(option: string, text: string): readonly [name: string, value: string | undefined] {
	const at = text.indexOf("=");
	const name = at < 0 ? text : text.slice(0, at);
	// The text is not shown: what is behind the "=" may be a secret.
	if (name === "") throw refuse(option, "NAME=VALUE or NAME", "=…");
	return [name, at < 0 ? undefined : text.slice(at + 1)];
}

function withEntry(
	record: Readonly<Record<string, string>>,
	name: string,
	value: string,
): Readonly<Record<string, string>> {
	return Object.fromEntries([...Object.entries(record).filter(([other]) => other !== name), [name, value]]);
}

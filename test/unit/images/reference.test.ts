import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseReference, toText } from "../../../src/images/reference.js";

const HEX = "0123456789abcdef".repeat(4);

describe("reading an image reference", () => {
	test.each([
		["node", { domain: "docker.io", path: "library/node" }, "node:latest"],
		["node:22-bookworm-slim", { domain: "docker.io", path: "library/node", tag: "22-bookworm-slim" }, undefined],
		["docker.io/node:22", { domain: "docker.io", path: "library/node", tag: "22" }, "node:22"],
		["index.docker.io/library/node:22", { domain: "docker.io", path: "library/node", tag: "22" }, "node:22"],
		["me/tool:1", { domain: "docker.io", path: "me/tool", tag: "1" }, undefined],
		["localhost/tool:1", { domain: "localhost", path: "tool", tag: "1" }, undefined],
		["localhost:1/x/y:z", { domain: "localhost:1", path: "x/y", tag: "z" }, undefined],
		[
			"Registry.Example:5000/a-b/c__d.e:T",
			{ domain: "Registry.Example:5000", path: "a-b/c__d.e", tag: "T" },
			undefined,
		],
		["[::1]:5000/a:1", { domain: "[::1]:5000", path: "a", tag: "1" }, undefined],
		[`a@sha256:${HEX}`, { domain: "docker.io", path: "library/a", digest: `sha256:${HEX}` }, undefined],
		[`r.io/a:1@sha256:${HEX}`, { domain: "r.io", path: "a", tag: "1", digest: `sha256:${HEX}` }, undefined],
	])("%s has its parts", (text, parts, written) => {
		expect(parseReference(text)).toEqual({ kind: "name", ...parts });
		expect(toText(parseReference(text))).toBe(written ?? text);
	});

	test.each([HEX, `sha256:${HEX}`])("an image id is no name: %s", (text) => {
		expect(parseReference(text)).toEqual({ kind: "id", id: `sha256:${HEX}` });
	});

	test.each([
		["", "image reference"],
		["UPPER/bad", "lower case"],
		["Node", 'try "node"'],
		["a@sha256:short", "digest"],
		["a@", "digest"],
		["a@md5:00000000000000000000000000000000", "digest"],
		[`a@constructor:${HEX}`, "digest"],
		["a:", "tag"],
		["a:b:c", "tag"],
		[`a:${"t".repeat(129)}`, "tag"],
		["a:-x", "tag"],
		["a b", "repository"],
		[" a", "repository"],
		["a\n", "repository"],
		["/a", "repository"],
		["a/", "repository"],
		["a//b", "repository"],
		["-a", "repository"],
		["a..b", "repository"],
		["a___b", "repository"],
		["https://r.io/a", "registry"],
		["r.io:port/a", "registry"],
		["-r.io/a", "registry"],
		["../a", "registry"],
		["ä", "repository"],
		["x".repeat(256), "255"],
	])("%j is refused, and the message says why", (text, why) => {
		expect(() => parseReference(text)).toThrow(expect.objectContaining({ code: "invalid_input" }));
		expect(() => parseReference(text)).toThrow(why);
	});

	test.each([undefined, null, 7, {}, ["a"]])("%j is refused", (value) => {
		expect(() => parseReference(value)).toThrow(expect.objectContaining({ code: "invalid_input" }));
	});
});

const word = fc.stringMatching(/^[a-z0-9]{1,8}$/);
const component = fc.tuple(word, fc.constantFrom(".", "_", "__", "-", "---"), word).map((parts) => parts.join(""));
const domain = fc.oneof(
	fc.constant("localhost"),
	fc
		.tuple(word, fc.constantFrom("example", "io"), fc.option(fc.nat(65535), { nil: undefined }))
		.map(([host, end, port]) => `${host}.${end}${port === undefined ? "" : `:${port}`}`),
);
const path = fc.array(component, { minLength: 1, maxLength: 4 }).map((parts) => parts.join("/"));
const tag = fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/);
const digest = fc.stringMatching(/^[0-9a-f]{64}$/).map((digits) => `sha256:${digits}`);
const parts = fc.record({ domain, path, tag, digest }, { requiredKeys: ["domain", "path"] });

describe("the rules of references", () => {
	test("what was put together from parts is read as these parts", () => {
		fc.assert(
			fc.property(parts, (given) => {
				const text = `${given.domain}/${given.path}${given.tag ? `:${given.tag}` : ""}${given.digest ? `@${given.digest}` : ""}`;
				expect(parseReference(text)).toEqual({ kind: "name", ...given });
			}),
		);
	});

	test("writing and reading again changes nothing, and always leaves a tag or a digest", () => {
		const hub = parts.map(({ path, tag, digest }) => ({ path, tag, digest }));
		fc.assert(
			fc.property(hub, ({ path, tag, digest }) => {
				const text = `${path}${tag ? `:${tag}` : ""}${digest ? `@${digest}` : ""}`;
				const written = toText(parseReference(text));
				expect(toText(parseReference(written))).toBe(written);
				expect(written).toMatch(/[:@]/);
			}),
		);
	});

	test("any text is either read or refused with a reason", () => {
		fc.assert(
			fc.property(fc.oneof(fc.string(), fc.string({ unit: "binary" })), (text) => {
				try {
					expect(toText(parseReference(text))).toMatch(/^[\w.:/@[\]-]+$/);
				} catch (error) {
					expect(error).toMatchObject({ code: "invalid_input" });
				}
			}),
		);
	});
});

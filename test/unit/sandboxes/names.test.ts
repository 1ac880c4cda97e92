import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isSandboxError } from "../../../src/primitives/errors.js";
import {
	parseName,
	parsePrefix,
	toContainerName,
	toNetworkName,
	toNextContainerName,
} from "../../../src/sandboxes/names.js";

describe("names", () => {
	test.each(["w", "foo.bar", "a-b_c", "con", "node_modules", "constructor", "0", "a".repeat(63)])(
		"%s is a name",
		(name) => {
			expect(parseName(name)).toBe(name);
		},
	);

	test.each([
		".x",
		"_x",
		"-x",
		"UP",
		"Проект",
		"a".repeat(64),
		"a".repeat(300),
		"",
		" ",
		"a/b",
		"a:b",
		"..",
		"a b",
		"a\n",
		"é",
		"__proto__",
		"a\0",
		7,
		null,
		undefined,
		{},
	])("%j is refused with the rule", (name) => {
		expect(() => parseName(name)).toThrow(/name: expected 1 to 63 characters of a-z/);
		try {
			parseName(name);
		} catch (error) {
			expect(isSandboxError(error, "invalid_input")).toBe(true);
		}
	});

	test("the name of a container that is being made is none that a sandbox can have", () => {
		expect(() => parseName(toNextContainerName("p", "w", "0123456789abcdef").slice(2))).toThrow();
	});

	test("two sandboxes of one prefix never share a container name", () => {
		const names = fc.stringMatching(/^[a-z0-9][a-z0-9_.-]{0,20}$/);
		fc.assert(
			fc.property(names, names, (a, b) => {
				fc.pre(a !== b);
				expect(toContainerName("p", a)).not.toBe(toContainerName("p", b));
			}),
		);
	});

	test("a prefix with a bad character is refused", () => {
		for (const prefix of ["", "A", "a/b", "-a", "a".repeat(32), 1])
			expect(() => parsePrefix(prefix)).toThrow(/prefix: expected/);
	});

	test("networks of two roots have two names", () => {
		expect(toNetworkName("p", "aaaaaaaa-bbbb-cccc")).not.toBe(toNetworkName("p", "aaaaaaaa-bbbc-cccc"));
	});
});

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
	durationOf,
	envFrom,
	labelOf,
	mountOf,
	numberOf,
	oneOf,
	publishOf,
	sizeOf,
	wholeOf,
} from "../../src/cli/arguments.js";
import { isSandboxError } from "../../src/index.js";

function refused(parse: () => unknown): string {
	try {
		parse();
	} catch (error) {
		if (isSandboxError(error, "invalid_input")) return error.message;
		throw error;
	}
	throw new Error("it was accepted");
}

describe("sizes and durations", () => {
	test("are what the library takes, and a refusal names the option", () => {
		expect(sizeOf("--memory")("512m")).toBe(512 * 1024 ** 2);
		expect(durationOf("--timeout")("1h30m")).toBe(5_400_000);
		expect(refused(() => sizeOf("--memory")("lots"))).toMatch(/^--memory: .*"lots"/);
		expect(refused(() => durationOf("--timeout")("30"))).toMatch(/^--timeout: .*"30"/);
	});

	test("none and 0 are no limit", () => {
		expect([durationOf("--timeout")("none"), durationOf("--timeout")("0")]).toEqual([0, 0]);
	});
});

describe("numbers", () => {
	test("of processors may have a fraction, of processes not", () => {
		expect([numberOf("--cpus")("0.5"), numberOf("--cpus")("2")]).toEqual([0.5, 2]);
		expect(wholeOf("--pids")("64")).toBe(64);
		for (const text of ["", "x", "-1", "1e3", "0x10", "1,5", "NaN", "Infinity"]) {
			expect(refused(() => numberOf("--cpus")(text))).toContain("--cpus");
		}
		for (const text of ["", "1.5", "-1", "1e3"]) expect(refused(() => wholeOf("--pids")(text))).toContain("--pids");
	});
});

describe("words of a few", () => {
	test("are refused with all that are known", () => {
		expect(oneOf("--network", ["bridge", "none"])("none")).toBe("none");
		expect(refused(() => oneOf("--network", ["bridge", "none"])("host"))).toContain("bridge or none");
	});
});

describe("--env", () => {
	const parse = envFrom({ HOME: "/home/me", EMPTY: "" });

	test("keeps everything behind the first =, also nothing", () => {
		expect(parse("A=b=c", parse("B="))).toEqual({ A: "b=c", B: "" });
	});

	test("takes the caller's value for a name alone, and leaves out one the caller does not have", () => {
		expect(parse("HOME", parse("EMPTY", parse("MISSING")))).toEqual({ HOME: "/home/me", EMPTY: "" });
	});

	test("the last value of a name holds, names of the language's own included", () => {
		expect(parse("A=2", parse("A=1"))).toEqual({ A: "2" });
		expect(Object.entries(parse("__proto__=x"))).toEqual([["__proto__", "x"]]);
	});

	test("a refusal does not show the value", () => {
		expect(refused(() => parse("=secret"))).not.toContain("secret");
	});

	test("whatever the values, each arrives as it was written", () => {
		const name = fc.stringMatching(/^[A-Za-z_][A-Za-z0-9_]{0,8}$/);
		fc.assert(
			fc.property(fc.dictionary(name, fc.string()), (env) => {
				const parsed = Object.entries(env).reduce<Readonly<Record<string, string>>>(
					(previous, [key, value]) => parse(`${key}=${value}`, previous),
					{},
				);
				expect(new Map(Object.entries(parsed))).toEqual(new Map(Object.entries(env)));
			}),
		);
	});
});

describe("--label", () => {
	test("a name alone has the empty value", () => {
		expect(labelOf("team=a", labelOf("keep"))).toEqual({ keep: "", team: "a" });
	});
});

describe("--publish", () => {
	test.each([
		["3000", { port: 3000 }],
		["8080:3000", { port: 3000, hostPort: 8080 }],
		["8080:3000/udp", { port: 3000, hostPort: 8080, protocol: "udp" }],
		["3000/tcp", { port: 3000, protocol: "tcp" }],
		["0.0.0.0:8080:3000", { port: 3000, hostPort: 8080, hostIp: "0.0.0.0" }],
		["127.0.0.1::3000", { port: 3000, hostIp: "127.0.0.1" }],
		["[::1]:8080:3000", { port: 3000, hostPort: 8080, hostIp: "::1" }],
	])("%s", (text, port) => {
		expect(publishOf(text)).toEqual([port]);
	});

	test("may be given more than once", () => {
		expect(publishOf("2:1", publishOf("3"))).toEqual([{ port: 3 }, { port: 1, hostPort: 2 }]);
	});

	test.each(["", "a", "3000/sctp", "1:2:3", "8080:", "-1", "host:8080:3000"])("refuses %j", (text) => {
		expect(refused(() => publishOf(text))).toContain("--publish");
	});
});

describe("--mount", () => {
	test("is read-only unless it says rw, and a relative source is seen from here", () => {
		expect(mountOf("/a:/b")).toEqual([{ source: "/a", target: "/b", readOnly: true }]);
		expect(mountOf("/a:/b:ro")).toEqual([{ source: "/a", target: "/b", readOnly: true }]);
		expect(mountOf("src:/b:rw")).toEqual([{ source: `${process.cwd()}/src`, target: "/b", readOnly: false }]);
	});

	test("a colon in the source stays in the source", () => {
		expect(mountOf("/a:1:/b")).toEqual([{ source: "/a:1", target: "/b", readOnly: true }]);
	});

	test.each(["", "/a", "/a:b", ":/b", "/a:/b:exec"])("refuses %j", (text) => {
		expect(refused(() => mountOf(text))).toContain("--mount");
	});
});

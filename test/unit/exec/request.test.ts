import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { MAX_ARGUMENT_BYTES, normaliseExec } from "../../../src/exec/request.js";
import { isSandboxError } from "../../../src/primitives/errors.js";

function refusal(command: unknown, options?: unknown): string {
	try {
		normaliseExec(command, options);
	} catch (error) {
		if (isSandboxError(error, "invalid_input")) return error.message;
		throw error;
	}
	return "accepted";
}

describe("a command", () => {
	test("that is a string goes through a shell", () => {
		expect(normaliseExec("echo $HOME | cat").argv).toEqual(["sh", "-c", "echo $HOME | cat"]);
	});

	test("that is an array is taken as given, and defaults are filled in", () => {
		const request = normaliseExec(["printf", "%s|", "a b", "", "*"]);
		expect(request).toMatchObject({
			argv: ["printf", "%s|", "a b", "", "*"],
			cwd: "/workspace",
			killGraceMs: 2000,
			encoding: "utf8",
			maxOutputBytes: 16 * 1024 * 1024,
			stdin: undefined,
			timeoutMs: undefined,
		});
		expect(Object.isFrozen(request)).toBe(true);
		expect(Object.isFrozen(request.argv)).toBe(true);
	});

	test.each([
		["", "command"],
		["  ", "command"],
		[[], "command"],
		[[""], "command[0]"],
		[["a", 1], "command[1]"],
		[["a\0b"], "command[0]"],
		["a\0b", "command"],
		[undefined, "command"],
		[null, "command"],
		[{}, "command"],
	])("%j is refused and named %s", (command, field) => {
		expect(refusal(command)).toContain(`${field}: expected`);
	});

	test("with more than the kernel takes is refused with what to do", () => {
		expect(refusal(["a", "x".repeat(MAX_ARGUMENT_BYTES)])).toBe("accepted");
		expect(refusal(["a", "x".repeat(MAX_ARGUMENT_BYTES + 1)])).toContain("command[1]: expected at most");
		expect(refusal(["a", ...Array.from({ length: 17 }, () => "x".repeat(MAX_ARGUMENT_BYTES))])).toContain("2097152");
		expect(refusal(["a"], { env: { BIG: "x".repeat(MAX_ARGUMENT_BYTES) } })).toContain("env.BIG");
	});
});

describe("options", () => {
	test.each([
		[{ timeout: 5 }, 'did you mean "timeoutMs"'],
		[{ timeoutMs: 0 }, "leave it out for no limit"],
		[{ timeoutMs: -1 }, "timeoutMs"],
		[{ timeoutMs: Number.NaN }, "timeoutMs"],
		[{ timeoutMs: Number.POSITIVE_INFINITY }, "timeoutMs"],
		[{ timeoutMs: 2 ** 31 }, "timeoutMs"],
		[{ timeoutMs: "5" }, "timeoutMs"],
		[{ killGraceMs: -1 }, "killGraceMs"],
		[{ maxOutputBytes: 1.5 }, "maxOutputBytes"],
		[{ cwd: "" }, "cwd"],
		[{ cwd: "a\0" }, "cwd"],
		[{ cwd: 1 }, "cwd"],
		[{ env: { "": "x" } }, "env name"],
		[{ env: { "A B": "x" } }, "env name"],
		[{ env: { "A=B": "x" } }, "env name"],
		[{ env: { "A\0": "x" } }, "env name"],
		[{ env: { A: 1 } }, "env.A"],
		[{ env: { A: "x\0secret" } }, "env.A"],
		[{ env: [] }, "env"],
		[{ stdin: 5 }, "stdin"],
		[{ stdin: {} }, "stdin"],
		[{ signal: {} }, "signal"],
		[{ user: "" }, "user"],
		[{ user: "a b" }, "user"],
		[{ user: "a:b:c" }, "user"],
		[{ onStdout: "x" }, "onStdout"],
		[{ encoding: "latin1" }, "encoding"],
		[{ terminal: { columns: 0, rows: 1 } }, "terminal.columns"],
		[{ terminal: { columns: 80 } }, "terminal.rows"],
		[{ terminal: true }, "terminal"],
		["x", "options"],
	])("%j are refused, naming the field", (options, text) => {
		const message = refusal("true", options);
		expect(message).toContain(text);
		expect(message).not.toContain("secret");
	});

	test.each([
		["sub dir/x", "/workspace/sub dir/x"],
		["..", "/workspace/.."],
		["/tmp", "/tmp"],
		["-x", "/workspace/-x"],
	])("a working directory %j is %j", (cwd, absolute) => {
		expect(normaliseExec("true", { cwd }).cwd).toBe(absolute);
	});

	test("odd names of variables are allowed, values that are undefined are left out", () => {
		const { env } = normaliseExec("true", { env: { "a.b": "1", "x-y": "", __proto__x: "2", U: undefined } });
		expect({ ...env }).toEqual({ "a.b": "1", "x-y": "", __proto__x: "2" });
	});

	test("any value either gives a request or the one refusal", () => {
		fc.assert(
			fc.property(fc.anything(), fc.anything(), (command, options) => {
				refusal(command, options);
			}),
			{ numRuns: 300 },
		);
	});
});

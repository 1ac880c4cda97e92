import { execFileSync } from "node:child_process";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { normaliseExec } from "../../../src/exec/request.js";
import { MAX_SHELL_COMMAND_BYTES, normaliseShell, normaliseShellRun } from "../../../src/exec/shell-request.js";
import { ShellRun } from "../../../src/exec/shell-run.js";
import { jobsIn, requestLine } from "../../../src/exec/shell-script.js";
import { isSandboxError } from "../../../src/primitives/errors.js";

function refusal(work: () => unknown): string {
	try {
		work();
	} catch (error) {
		if (isSandboxError(error, "invalid_input")) return error.message;
		throw error;
	}
	return "accepted";
}

describe("what may be asked of a stateful shell", () => {
	test("has defaults", () => {
		expect(normaliseShell()).toMatchObject({ cwd: "/workspace", argv: ["sh", "-c", expect.any(String), "sh"] });
		expect(normaliseShell({ shell: "bash" }).argv[0]).toBe("bash");
		expect(normaliseShellRun("a\nb", { timeoutMs: 7 })).toMatchObject({ text: "a\nb", exec: { timeoutMs: 7 } });
		expect(normaliseShellRun(["a", "it's"]).text).toBe(`'a' 'it'\\''s'`);
	});

	test.each([
		[() => normaliseShell({ shell: "zsh" }), 'shell: expected "sh" or "bash"'],
		[() => normaliseShell({ stdin: "x" }), 'unknown option "stdin"'],
		[() => normaliseShellRun(" "), "command"],
		[() => normaliseShellRun([]), "command"],
		[() => normaliseShellRun(7), "command"],
		[() => normaliseShellRun("a\0"), "without NUL"],
		[() => normaliseShellRun("x".repeat(MAX_SHELL_COMMAND_BYTES + 1)), "at most"],
		[() => normaliseShellRun("a", { stdin: "x" }), 'unknown option "stdin"'],
		[() => normaliseShellRun("a", { timeoutMs: 0 }), "timeoutMs"],
	])("is refused with a sentence (%#)", (work, part) => {
		expect(refusal(work)).toContain(part);
	});

	test("goes to the shell on one line and is there what it was", () => {
		const text = fc.string({
			unit: fc.constantFrom("a", "'", '"', "\n", "\\", "$x", "`", " ", "#", "é", "\r"),
			maxLength: 40,
		});
		fc.assert(
			fc.property(text, (command) => {
				const line = requestLine("n", "m", command);
				expect(line.indexOf("\n")).toBe(line.length - 1);
				const script = `__sbx_nl='\n'; IFS= read -r l; l=\${l#* }; eval "c=\${l#* }"; printf %s "$c"`;
				expect(execFileSync("sh", ["-c", script], { input: line, encoding: "utf8" })).toBe(command);
			}),
			{ numRuns: 40 },
		);
	});
});

describe("one command", () => {
	test("is what stands between the shell's own lines", async () => {
		const run = new ShellRun(normaliseExec("true"));
		const { nonce } = run;
		await run.take("stdout", Buffer.from(`noise of a job\n${nonce}K 12 34 \n${nonce} P\nout`));
		await run.take("stderr", Buffer.from(`${nonce} P\nerr${nonce} E\nnoise`));
		expect(run.exitCode).toBeUndefined();
		await run.take("stdout", Buffer.from(`put\n${nonce} 42\nnoise`));
		expect(await run.over).toEqual({ kind: "ended" });
		expect([run.stdout.toText().text, run.stderr.toText().text, run.exitCode]).toEqual(["output\n", "err", 42]);
		expect(run.jobs).toBe("12 34");
	});

	test("whose shell ends keeps all that it said", async () => {
		const run = new ShellRun(normaliseExec("true"));
		await run.take("stdout", Buffer.from(`${run.nonce} P\nlast ${run.nonce.slice(0, 9)}`));
		await run.flush();
		expect(await run.over).toEqual({ kind: "ended" });
		expect([run.stdout.toText().text, run.exitCode]).toEqual([`last ${run.nonce.slice(0, 9)}`, undefined]);
	});

	test("is over with what its listener throws, and a listener that never answers holds nothing up then", async () => {
		const error = new Error("no");
		const failing = new ShellRun(normaliseExec("true", { onStdout: () => Promise.reject(error) }));
		await failing.take("stdout", Buffer.from(`${failing.nonce} P\nx`));
		expect(await failing.over).toEqual({ kind: "thrown", error });
		const silent = new ShellRun(normaliseExec("true", { onStdout: () => new Promise(() => {}) }));
		const taking = silent.take("stdout", Buffer.from(`${silent.nonce} P\nx`));
		silent.end({ kind: "timeout" });
		await taking;
	});

	test("tells jobs only by the shell's own line", () => {
		expect(jobsIn("abc", "abcK \nabc P")).toBe("");
		expect(jobsIn("abc", "K 1 2\n")).toBe("");
		expect(jobsIn("abc", "abcK 1; rm\n")).toBe("");
	});
});

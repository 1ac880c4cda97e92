import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { startFailure } from "../../../src/exec/engine-sentence.js";
import { OutputKeeper } from "../../../src/exec/output.js";
import { signalName, toResult } from "../../../src/exec/result.js";
import { quoted, runnerCall, withEnv } from "../../../src/exec/runner.js";

function kept(maxBytes: number, chunks: readonly Uint8Array[]): OutputKeeper {
	const keeper = new OutputKeeper(maxBytes);
	for (const chunk of chunks) keeper.add(Buffer.from(chunk));
	return keeper;
}

const chunks = fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 20 });

describe("kept output", () => {
	test("is the whole stream when it fits, else its first and its last part and where the gap is", () => {
		fc.assert(
			fc.property(chunks, fc.nat(3000), (parts, maxBytes) => {
				const whole = Buffer.concat(parts);
				const keeper = kept(maxBytes, parts);
				const { bytes, cut } = keeper.toBytes();
				expect(keeper.totalBytes).toBe(whole.length);
				if (whole.length <= maxBytes) {
					expect(bytes.equals(whole)).toBe(true);
					expect(cut).toBeUndefined();
					expect(keeper.truncated).toBe(false);
					return;
				}
				expect(keeper.truncated).toBe(true);
				const { atByte, bytes: missing } = cut ?? { atByte: -1, bytes: -1 };
				expect(bytes.length).toBe(maxBytes);
				expect(bytes.subarray(0, atByte).equals(whole.subarray(0, atByte))).toBe(true);
				expect(bytes.subarray(atByte).equals(whole.subarray(atByte + missing))).toBe(true);
			}),
			{ numRuns: 300 },
		);
	});

	test("is right text wherever a character is split over chunks", () => {
		fc.assert(
			fc.property(fc.string({ unit: "grapheme" }), fc.integer({ min: 1, max: 3 }), (text, size) => {
				const bytes = Buffer.from(text);
				const parts = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
					bytes.subarray(i * size, (i + 1) * size),
				);
				expect(kept(1 << 20, parts).toText().text).toBe(bytes.toString("utf8"));
			}),
			{ numRuns: 200 },
		);
	});

	test("never cuts a character in two", () => {
		for (let maxBytes = 0; maxBytes < 40; maxBytes++) {
			const { text } = kept(maxBytes, [Buffer.from("aä€😀".repeat(10))]).toText();
			expect(text).not.toContain("\uFFFD");
		}
	});

	test("keeps a byte order mark", () => {
		expect(kept(100, [Buffer.from([0xef, 0xbb, 0xbf, 0x41])]).toText().text).toBe("\uFEFFA");
	});
});

describe("a result", () => {
	const told = {
		exitCode: 3,
		signal: undefined,
		timedOut: false,
		oomKilled: undefined,
		pidsExceeded: undefined,
	} as const;
	const parts = { ...told, durationMs: 1.4 };

	test("holds strings or bytes, is frozen, and leaves out what is not known", () => {
		const stdout = kept(10, [Buffer.from("é")]);
		const stderr = kept(10, []);
		const text = toResult({ ...parts, stdout, stderr, encoding: "utf8" });
		expect(text).toEqual({
			stdout: "é",
			stderr: "",
			exitCode: 3,
			timedOut: false,
			truncated: false,
			durationMs: 1,
			outputBytes: { stdout: 2, stderr: 0 },
		});
		expect(Object.isFrozen(text)).toBe(true);
		expect(toResult({ ...parts, stdout, stderr, encoding: "buffer" }).stdout).toEqual(Buffer.from("é"));
	});

	test("says what was cut, per stream", () => {
		const result = toResult({
			...parts,
			stdout: kept(4, [Buffer.from("0123456789")]),
			stderr: kept(4, []),
			encoding: "utf8",
		});
		expect(result).toMatchObject({ stdout: "0189", truncated: true, cut: { stdout: { atByte: 2, bytes: 6 } } });
	});

	test("names signals as Linux numbers them", () => {
		expect([9, 15, 11, 13, 1, 31, 34].map(signalName)).toEqual([
			"SIGKILL",
			"SIGTERM",
			"SIGSEGV",
			"SIGPIPE",
			"SIGHUP",
			"SIGSYS",
			undefined,
		]);
	});
});

describe("the runner's call", () => {
	test("quotes so that a shell reads the same word", () => {
		expect(quoted("a'b\n$x")).toBe("'a'\\''b\n$x'");
	});

	test("puts variables before the command, and a program named like one behind a shell", () => {
		expect(withEnv(["a", "b"], {})).toEqual(["a", "b"]);
		expect(withEnv(["a", "b"], { "x.y": "1" })).toEqual(["env", "--", "x.y=1", "a", "b"]);
		expect(withEnv(["a=b"], { X: "1" })).toEqual(["env", "--", "X=1", "sh", "-c", 'exec "$@"', "sh", "a=b"]);
	});

	test("shows the command's words in no list of processes, unless they are too long for a variable", () => {
		const run = { nonce: "n", cwd: "/w", marker: "m", env: {} };
		expect(runnerCall("S", { ...run, argv: ["secret"] }).argv.join(" ")).not.toContain("secret");
		expect(runnerCall("S", { ...run, argv: ["x", "y".repeat(125_000)] }).argv).toHaveLength(9);
	});
});

describe("the engine's sentence", () => {
	test.each([
		[
			'OCI runtime exec failed: exec failed: unable to start container process: exec: "sh": executable file not found in $PATH: unknown\r\n',
			"no_shell",
		],
		[
			'OCI runtime exec failed: exec failed: unable to start container process: exec: "nosuch": executable file not found in $PATH: unknown\r\n',
			"not_found",
		],
		[
			'OCI runtime exec failed: exec failed: unable to start container process: exec: "/etc": permission denied: unknown\r\n',
			"not_executable",
		],
		[
			'OCI runtime exec failed: exec failed: unable to start container process: chdir to cwd ("/nope") set in config.json failed: no such file or directory: unknown\r\n',
			"bad_cwd",
		],
		["unable to find user nosuch: no matching entries in passwd file\r\n", "no_user"],
		[
			"OCI runtime exec failed: exec failed: unable to start container process: read init-p: resource temporarily unavailable\n",
			"no_room",
		],
		["OCI runtime exec failed: something else", "other"],
		["hello\n", undefined],
		["OCI runtime exec failed: x\nand more\n", undefined],
		["", undefined],
	])("%j is %s", (text, kind) => {
		expect(startFailure(text)).toBe(kind);
	});
});

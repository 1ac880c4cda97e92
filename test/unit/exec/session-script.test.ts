import { execFileSync } from "node:child_process";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { roomFor } from "../../../src/exec/session-pool.js";
import { lineBody, MAX_INLINE_INPUT_BYTES, MAX_LINE_BYTES, toLine } from "../../../src/exec/session-script.js";

/** What a shell makes of a line: its words, each ended by NUL. */
function readBack(line: Buffer): string[] {
	const script =
		'__sbx_nl=\'\n\'; IFS=\' \' read -r k n t l; [ "$k" = key ] || exit 1; eval "set -- $l"; printf \'%s\\0\' "$n" "$t" "$@"';
	return execFileSync("sh", ["-c", script], { input: line }).toString("latin1").split("\0").slice(0, -1);
}

describe("a line for a session", () => {
	const text = fc.string({ unit: "binary", maxLength: 40 }).map((raw) => raw.replaceAll("\0", ""));

	test("is one line, and a shell reads back exactly its words", () => {
		fc.assert(
			fc.property(text, fc.array(text, { minLength: 1, maxLength: 5 }), (cwd, words) => {
				const body = lineBody({ input: undefined, cwd, marker: "m", words });
				const line = toLine("key", "nonce", 17, body ?? Buffer.alloc(0));
				expect(line.indexOf("\n")).toBe(line.length - 1);
				const bytes = [cwd, "m", ...words].map((word) => Buffer.from(word).toString("latin1"));
				expect(readBack(line)).toEqual(["nonce", "17", "-", ...bytes]);
			}),
			{ numRuns: 40 },
		);
	});

	test("carries any input as printf reads it", () => {
		fc.assert(
			fc.property(fc.uint8Array({ maxLength: 300 }), (input) => {
				const body = lineBody({ input, cwd: "/", marker: "m", words: ["cat"] });
				const word = readBack(toLine("key", "n", undefined, body ?? Buffer.alloc(0)))[2] ?? "";
				const script = execFileSync("sh", ["-c", `IFS= read -r w; printf %b "\${w#=}"`], {
					input: Buffer.from(`${word}\n`, "latin1"),
				});
				expect(script.equals(Buffer.from(input))).toBe(true);
			}),
			{ numRuns: 40 },
		);
	});

	test("is none for what is too long", () => {
		const request = { input: undefined, cwd: "/", marker: "m", words: ["x"] };
		expect(lineBody({ ...request, words: ["x".repeat(MAX_LINE_BYTES)] })).toBeUndefined();
		expect(lineBody({ ...request, words: ["'".repeat(MAX_LINE_BYTES / 2)] })).toBeUndefined();
		expect(lineBody({ ...request, input: new Uint8Array(MAX_INLINE_INPUT_BYTES + 1) })).toBeUndefined();
		expect(lineBody({ ...request, input: new Uint8Array(3000) })).toBeDefined();
	});
});

test("a sandbox has room for one session per 16 processes beyond its first 16, and for four at most", () => {
	expect([undefined, 8, 16, 31, 32, 48, 64, 80, 512].map(roomFor)).toEqual([4, 0, 0, 0, 1, 2, 3, 4, 4]);
});

import { appendFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ProcessFiles, toSpecText } from "../../../src/exec/processes-files.js";
import { readLogs } from "../../../src/exec/processes-logs.js";
import {
	checkedName,
	checkedSignalName,
	type LogsOptions,
	normaliseLogs,
	normaliseProcess,
	normaliseWait,
} from "../../../src/exec/processes-request.js";
import { isSandboxError } from "../../../src/primitives/errors.js";

const ID = "0123456789abcdef";
const BOOT = "0f1e2d3c-0000-4000-8000-0123456789ab";
let home: string;
let area: string;
let files: ProcessFiles;

beforeEach(() => {
	home = mkdtempSync(join(tmpdir(), "sandboxes-test-"));
	area = join(home, ".sandboxes/processes");
	files = new ProcessFiles(home);
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

function write(id: string, contents: Readonly<Record<string, string>>): void {
	rmSync(join(area, id), { recursive: true, force: true });
	mkdirSync(join(area, id), { recursive: true });
	for (const [name, text] of Object.entries(contents)) writeFileSync(join(area, id, name), text);
}

const specOf = (id: string, startedAtMs = 5): string =>
	`${toSpecText({ id, name: undefined, command: "true", cwd: "/workspace", startedAtMs })}\n`;

async function read(
	options: LogsOptions,
	over: () => boolean = () => true,
): Promise<{ stdout: string; stderr: string }> {
	const texts = { stdout: "", stderr: "" };
	for await (const { stream, chunk } of readLogs(files, ID, options, async () => over())) texts[stream] += chunk;
	return texts;
}

function refusal(work: () => unknown): string {
	try {
		work();
	} catch (error) {
		if (isSandboxError(error, "invalid_input")) return error.message;
		throw error;
	}
	return "accepted";
}

describe("what may be asked of background processes", () => {
	test("has defaults", () => {
		expect(normaliseProcess(["a", "b"], { name: "web-1" })).toMatchObject({
			name: "web-1",
			command: ["a", "b"],
			maxLogBytes: 8 * 1024 * 1024,
			exec: { argv: ["a", "b"], cwd: "/workspace" },
		});
		expect(normaliseLogs()).toEqual({ follow: false });
		expect(normaliseWait({ timeoutMs: 5 })).toEqual({ timeoutMs: 5 });
		expect(checkedSignalName("SIGTERM")).toBe("TERM");
	});

	test.each([
		[() => normaliseProcess("a", { user: "root" }), 'unknown option "user"'],
		[() => normaliseProcess("a", { stdin: "x" }), 'unknown option "stdin"'],
		[() => normaliseProcess("a", { name: "a b" }), "name: expected"],
		[() => normaliseProcess("a", { maxLogBytes: 5 }), "maxLogBytes: expected an integer from 65536"],
		[() => normaliseProcess(""), "command"],
		[() => normaliseLogs({ tail: -1 }), "tail"],
		[() => normaliseLogs({ follow: 1 }), "follow"],
		[() => normaliseWait({ timeoutMs: 0 }), "timeoutMs"],
		[() => normaliseWait({ signal: {} }), "signal"],
		[() => checkedName("process", "../x"), "process: expected"],
		[() => checkedSignalName("NOPE"), "signal"],
	])("is refused with a sentence (%#)", (work, part) => {
		expect(refusal(work)).toContain(part);
	});
});

describe("what is kept of processes", () => {
	test("is nothing where no process ever was", () => {
		expect(files.list()).toEqual([]);
		expect(files.find(ID)).toBeUndefined();
		expect(files.find("../../etc")).toBeUndefined();
		expect(new ProcessFiles(join(home, "gone")).list()).toEqual([]);
	});

	test("is read in the order of the starts", () => {
		write("00000000000000bb", { spec: specOf("00000000000000bb", 1) });
		write("00000000000000aa", { spec: specOf("00000000000000aa", 2), exit: "255\n" });
		write(ID, { spec: specOf(ID, 1), pid: `7 100 6 99 ${BOOT}\n` });
		write("notanid", { spec: specOf(ID) });
		expect(files.list().map(({ spec, life, exit }) => [spec.id, life?.words, exit?.exitCode])).toEqual([
			["00000000000000bb", undefined, undefined],
			[ID, `${BOOT}:7:100:6:99`, undefined],
			["00000000000000aa", undefined, 255],
		]);
	});

	test("that makes no sense reads as not there", () => {
		for (const pid of [
			"",
			"7",
			`1 1 1 1 ${BOOT}\n`,
			`7 100 6 99 ${BOOT}`,
			`7 100 6 99 ${BOOT}\nx`,
			"$(id) 1 1 1 x\n",
		]) {
			write(ID, { spec: specOf(ID), pid });
			expect([pid, files.find(ID)?.life]).toEqual([pid, undefined]);
		}
		for (const exit of ["", "0", "-1\n", "1000\n", "0\n0\n"]) {
			write(ID, { spec: specOf(ID), exit });
			expect([exit, files.find(ID)?.exit]).toEqual([exit, undefined]);
		}
		write(ID, { spec: specOf(ID).replace('"command":"true"', '"name":"\\u001b[31m","command":"true"') });
		expect(files.find(ID)?.spec.name).toBeUndefined();
	});

	test("of a very long command is its beginning", () => {
		const spec = { id: ID, name: "x", command: ["echo", "y".repeat(100_000)], cwd: "/", startedAtMs: 1 };
		write(ID, { spec: `${toSpecText(spec)}\n` });
		expect(String(files.find(ID)?.spec.command)).toMatch(/^echo y{4000,4095}…$/);
	});

	test("is removed whole, and nothing else", async () => {
		write(ID, { spec: specOf(ID), "stdout.0": "x" });
		write("00000000000000aa", { spec: specOf("00000000000000aa") });
		await files.remove(ID);
		await files.remove(ID);
		expect(files.list().map(({ spec }) => spec.id)).toEqual(["00000000000000aa"]);
	});
});

describe("output", () => {
	test("is the same however it is spread over files, and a tail is its last lines", async () => {
		const parts = fc.array(fc.constantFrom("a", "\n", "bc\n", "é", "x".repeat(70_000)), { maxLength: 12 });
		const cuts = fc.array(fc.integer({ min: 0, max: 12 }), { maxLength: 3 });
		await fc.assert(
			fc.asyncProperty(parts, cuts, fc.integer({ min: 0, max: 8 }), async (pieces, ends, tail) => {
				const contents: Record<string, string> = {};
				const bounds = [...new Set([0, ...ends, pieces.length])].sort((a, b) => a - b);
				let at = 0;
				for (const [index, from] of bounds.slice(0, -1).entries()) {
					const text = pieces.slice(from, bounds[index + 1]).join("");
					contents[`stdout.${at}`] = text;
					at += Buffer.byteLength(text);
				}
				write(ID, { ...contents, "stdout.01": "no", "stdout.end": "no", "stdout.x": "no" });
				const whole = pieces.join("");
				expect((await read({})).stdout).toBe(whole);
				const lines = whole.match(/[^\n]*\n|[^\n]+$/g) ?? [];
				expect((await read({ tail })).stdout).toBe(tail === 0 ? "" : lines.slice(-tail).join(""));
			}),
			{ numRuns: 60 },
		);
	});

	test("that is no longer kept is a gap", async () => {
		write(ID, { "stdout.100": "abc", "stdout.103": "def" });
		const seen: [number, string][] = [];
		for await (const { atByte, chunk } of readLogs(files, ID, {}, async () => true)) seen.push([atByte, String(chunk)]);
		expect(seen).toEqual([
			[100, "abc"],
			[103, "def"],
		]);
	});

	test("without following ends with what was there, though more comes", async () => {
		write(ID, { "stdout.0": "abc", "stderr.0": "" });
		const seen: string[] = [];
		for await (const { chunk } of readLogs(files, ID, {}, async () => false)) {
			seen.push(String(chunk));
			appendFileSync(join(area, ID, "stdout.0"), "more");
			appendFileSync(join(area, ID, "stderr.0"), "more");
		}
		expect(seen).toEqual(["abc"]);
	});

	test("is followed to the end of the process, and what came last is not missed", async () => {
		write(ID, { "stdout.0": "a" });
		let looks = 0;
		const texts = await read({ follow: true }, () => {
			looks++;
			if (looks === 2) appendFileSync(join(area, ID, "stdout.0"), "b");
			if (looks === 3) writeFileSync(join(area, ID, "stdout.2"), "c");
			return looks === 3;
		});
		expect(texts).toEqual({ stdout: "abc", stderr: "" });
	});
});

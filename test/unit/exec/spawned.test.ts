import { getEventListeners, once } from "node:events";
import { Readable } from "node:stream";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { normaliseCode } from "../../../src/exec/code.js";
import type { RunningCommand } from "../../../src/exec/commands.js";
import { type ExecRequest, MAX_ARGUMENT_BYTES } from "../../../src/exec/request.js";
import { SpawnedCommand } from "../../../src/exec/spawned-command.js";
import { normaliseSpawn, normaliseTerminal } from "../../../src/exec/spawned-request.js";
import { inputBridge, linesOf, outputBridge } from "../../../src/exec/spawned-streams.js";
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

async function all<T>(source: AsyncIterable<T>): Promise<T[]> {
	const got: T[] = [];
	for await (const each of source) got.push(each);
	return got;
}

describe("what may be asked of a spawned command", () => {
	test("is what may be asked of any, and a result that keeps little", () => {
		expect(normaliseSpawn("cat", { cwd: "a", timeoutMs: 5 })).toMatchObject({
			argv: ["sh", "-c", "cat"],
			cwd: "/workspace/a",
			timeoutMs: 5,
			maxOutputBytes: 65_536,
		});
		expect(normaliseSpawn("cat", { maxOutputBytes: 0 }).maxOutputBytes).toBe(0);
	});

	test.each(["onStdout", "encoding", "nonsense"])("does not include %s", (name) => {
		expect(refusal(() => normaliseSpawn("cat", { [name]: "x" }))).toContain(`unknown option "${name}"`);
	});

	test("on a terminal has a size, and TERM unless it is given", () => {
		expect(normaliseTerminal(undefined)).toMatchObject({
			terminal: { columns: 80, rows: 24 },
			env: { TERM: "xterm-256color" },
		});
		expect(normaliseTerminal(["vi"], { columns: 100, env: { TERM: "vt100" } })).toMatchObject({
			argv: ["vi"],
			terminal: { columns: 100, rows: 24 },
			env: { TERM: "vt100" },
		});
		expect(refusal(() => normaliseTerminal("sh", { columns: 0 }))).toContain("terminal.columns");
		expect(refusal(() => normaliseTerminal("sh", { stdin: "x" }))).toContain('unknown option "stdin"');
	});
});

describe("program text", () => {
	test("is an argument of its interpreter, and so are its arguments", () => {
		expect(normaliseCode("python", "print(1)", { args: ["a", "-b"] }).argv).toEqual([
			"python3",
			"-c",
			"print(1)",
			"a",
			"-b",
		]);
		expect(normaliseCode("node", "1", { args: ["-v"] }).argv).toEqual(["node", "-e", "1", "--", "-v"]);
		expect(normaliseCode("sh", "exit 3", { args: ["a"] }).argv).toEqual(["sh", "-c", "exit 3", "sh", "a"]);
		expect(normaliseCode("python", "1", { env: { PYTHONDONTWRITEBYTECODE: "" } }).env).toEqual({
			PYTHONDONTWRITEBYTECODE: "",
		});
	});

	test("that is too long for an argument comes on stdin, unless the program wants that", () => {
		const source = "x".repeat(MAX_ARGUMENT_BYTES + 1);
		const request = normaliseCode("node", source, { args: ["a"] });
		expect(request.stdin).toBe(source);
		expect(request.argv.slice(-2)).toEqual(["--", "a"]);
		expect(normaliseCode("sh", source.slice(1)).stdin).toBeUndefined();
		expect(refusal(() => normaliseCode("node", source, { stdin: "y" }))).toContain("leave stdin out");
	});

	test.each([
		[() => normaliseCode("ruby", "1"), 'language: expected "python", "node", "sh"'],
		[() => normaliseCode("toString", "1"), "language"],
		[() => normaliseCode("sh", 1), "source"],
		[() => normaliseCode("sh", "a\0b"), "without NUL"],
		[() => normaliseCode("sh", "1", { args: "a" }), "args"],
		[() => normaliseCode("sh", "1", { argz: [] }), 'did you mean "args"'],
	])("is refused with a sentence (%#)", (work, part) => {
		expect(refusal(work)).toContain(part);
	});
});

describe("lines", () => {
	test("are the same however the bytes are cut", async () => {
		const text = fc.array(fc.constantFrom("a", "é", "😀", "\n", "\r\n", " "), { maxLength: 60 });
		await fc.assert(
			fc.asyncProperty(text, fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1 }), async (parts, cuts) => {
				const bytes = Buffer.from(parts.join(""));
				const chunks: Buffer[] = [];
				for (let at = 0, i = 0; at < bytes.length; i++) {
					const end = at + (cuts[i % cuts.length] ?? 1);
					chunks.push(bytes.subarray(at, end));
					at = end;
				}
				const expected = parts.join("").split(/\r?\n/);
				if (expected.at(-1) === "") expected.pop();
				expect(await all(linesOf(Readable.from(chunks), 1000))).toEqual(expected);
			}),
		);
	});

	test("that are too long come in pieces", async () => {
		const chunks = [Buffer.from("abcdefg"), Buffer.from("hij\r"), Buffer.from("\nk")];
		expect(await all(linesOf(Readable.from(chunks), 4))).toEqual(["abcd", "efgh", "ij", "k"]);
	});
});

describe("input", () => {
	test("is accepted chunk by chunk as the other side asks for it", async () => {
		const { stream, input } = inputBridge();
		const accepted: string[] = [];
		stream.write("a", () => accepted.push("a"));
		stream.end("b", () => accepted.push("b"));
		const iterator = input[Symbol.asyncIterator]();
		expect(String((await iterator.next()).value)).toBe("a");
		expect(accepted).toEqual([]);
		expect(String((await iterator.next()).value)).toBe("b");
		expect(accepted).toEqual(["a"]);
		expect((await iterator.next()).done).toBe(true);
	});

	test("that nobody takes any more is dropped, and the writer is told by its callback only", async () => {
		const { stream, input } = inputBridge();
		await input[Symbol.asyncIterator]().return?.();
		expect(stream.destroyed).toBe(true);
		const error = await new Promise((resolve) => stream.write("x", resolve));
		expect(error).toBeInstanceOf(Error);
	});
});

describe("output", () => {
	test("waits for its reader, and for nobody when the reader has gone", async () => {
		const { stream, push } = outputBridge();
		expect(push(Buffer.alloc(1000))).toBeUndefined();
		const full = push(Buffer.alloc(100_000));
		expect(full).toBeInstanceOf(Promise);
		stream.destroy();
		await full;
		expect(push(Buffer.alloc(100_000))).toBeUndefined();
	});

	test("goes by when nobody has begun to read it, and only then", async () => {
		const unread = outputBridge();
		unread.drainIfUnread();
		await unread.push(Buffer.alloc(100_000));
		unread.end();
		await once(unread.stream, "end");
		const claimed = outputBridge();
		claimed.claim();
		claimed.drainIfUnread();
		expect(claimed.stream.readableFlowing).toBeNull();
		const iterated = outputBridge();
		const chunks = all(iterated.stream);
		iterated.drainIfUnread();
		await iterated.push(Buffer.from("a"));
		iterated.end();
		expect(Buffer.concat((await chunks) as Buffer[]).toString()).toBe("a");
	});
});

describe("a handle", () => {
	test("tells a failed launch by wait() and by nothing else", async () => {
		const failure = new Error("no such thing");
		const command = new SpawnedCommand(normaliseSpawn("true"), async () => Promise.reject(failure));
		expect(await command.pid).toBeUndefined();
		expect(await command.kill()).toBe(false);
		await expect(command.wait()).rejects.toBe(failure);
		await expect(all(command.lines())).rejects.toBe(failure);
		expect(command.stdin.destroyed).toBe(true);
	});

	test("leaves nothing on the caller's signal", async () => {
		const { signal } = new AbortController();
		const command = new SpawnedCommand(normaliseSpawn("true", { signal }), async () => Promise.reject(new Error("no")));
		expect(getEventListeners(signal, "abort")).toHaveLength(1);
		await command.wait().catch(() => {});
		expect(getEventListeners(signal, "abort")).toHaveLength(0);
	});

	test("that is disposed of ends its command", async () => {
		let request: ExecRequest | undefined;
		const launch = async (asked: ExecRequest): Promise<RunningCommand> => {
			request = asked;
			return {
				pid: Promise.resolve(7),
				result: new Promise((_, reject) => {
					asked.signal?.addEventListener("abort", () => reject(asked.signal?.reason));
				}),
				kill: async () => true,
				resize: async () => {},
			};
		};
		const command = new SpawnedCommand(normaliseSpawn("sleep 9"), launch);
		expect(await command.pid).toBe(7);
		await command[Symbol.asyncDispose]();
		expect(request?.signal?.aborted).toBe(true);
		await expect(command.wait()).rejects.toMatchObject({ name: "AbortError" });
	});
});

import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { normaliseCode } from "../../src/exec/code.js";
import type { ExecResult } from "../../src/exec/request.js";
import { SpawnedCommand } from "../../src/exec/spawned-command.js";
import { normaliseSpawn, normaliseTerminal } from "../../src/exec/spawned-request.js";
import { Terminal } from "../../src/exec/spawned-terminal.js";
import { isSandboxError } from "../../src/primitives/errors.js";
import { type Box, Boxes } from "../support/exec-boxes.js";
import { importBusybox } from "../support/exec-images.js";
import { makeFleet } from "../support/fleet.js";

const NODE = "node:22-bookworm-slim";
const BUSYBOX = `sbxtest-spawn-busybox:${randomBytes(4).toString("hex")}`;
const boxes = new Boxes();

afterAll(async () => {
	await boxes.removeAll();
	await boxes.engine.removeImage(BUSYBOX);
});

function spawn(box: Box, command: unknown, options: object = {}): SpawnedCommand {
	return new SpawnedCommand(normaliseSpawn(command, options), async (request) =>
		boxes.commands.start(box.target, request),
	);
}

function open(box: Box, command: unknown, options: object = {}): Terminal {
	return new Terminal(normaliseTerminal(command, options), async (request) =>
		boxes.commands.start(box.target, request),
	);
}

async function run(box: Box, language: string, source: string, options: object = {}): Promise<ExecResult> {
	return (await boxes.commands.run(box.target, normaliseCode(language, source, options))) as ExecResult;
}

describe.each(["debian", "busybox"] as const)("in %s", (system) => {
	let box: Box;

	beforeAll(async () => {
		if (system === "busybox") expect(await importBusybox(BUSYBOX, { shell: true })).toBeDefined();
		box = await boxes.make({ image: system === "busybox" ? BUSYBOX : NODE });
	});

	test("a command is spoken with while it runs", async () => {
		await using talk = spawn(box, 'while read -r line; do echo "you: $line"; done; echo bye >&2; exit 4');
		const lines = talk.lines();
		talk.stdin.write("one\n");
		expect((await lines.next()).value).toBe("you: one");
		talk.stdin.write("two\n");
		expect((await lines.next()).value).toBe("you: two");
		expect(await talk.pid).toBeGreaterThan(1);
		talk.stdin.end();
		expect((await lines.next()).done).toBe(true);
		const end = await talk.wait();
		expect(end).toMatchObject({ exitCode: 4, timedOut: false, stderr: "bye\n", stdout: "you: one\nyou: two\n" });
	});

	test("ten megabytes go in and come out as they were", async () => {
		await using cat = spawn(box, ["cat"]);
		const hash = createHash("sha256");
		const sent = createHash("sha256");
		const source = (function* () {
			for (let i = 0; i < 160; i++) {
				const chunk = randomBytes(65_536);
				sent.update(chunk);
				yield chunk;
			}
		})();
		const reading = pipeline(cat.stdout, hash);
		await pipeline(Readable.from(source), cat.stdin);
		await reading;
		const end = await cat.wait();
		expect(hash.digest("hex")).toBe(sent.digest("hex"));
		expect(end).toMatchObject({ exitCode: 0, truncated: true, outputBytes: { stdout: 160 * 65_536, stderr: 0 } });
		expect(end.stdout.length).toBeLessThanOrEqual(65_536);
	});

	test("a reader that waits holds the command back, and one that never comes holds nothing up", async () => {
		await box.exec("rm -f count");
		await using much = spawn(
			box,
			"i=0; while [ $i -lt 400 ]; do head -c 65536 /dev/zero; i=$((i+1)); echo $i >count; done",
			{
				stdin: "",
			},
		);
		await once(much.stdout, "readable");
		await expect.poll(async () => (await box.exec("cat count")).stdout.trim(), { timeout: 10_000 }).not.toBe("");
		await new Promise((resolve) => setTimeout(resolve, 300));
		expect(Number((await box.exec("cat count")).stdout)).toBeLessThan(400);
		much.stdout.destroy();
		expect((await much.wait()).outputBytes.stdout).toBe(400 * 65_536);
		const unread = spawn(box, "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2", { stdin: "" });
		expect((await unread.wait()).outputBytes).toEqual({ stdout: 3_000_000, stderr: 3_000_000 });
	});

	test("an endless source ends with the command", async () => {
		await using head = spawn(box, ["head", "-c", "3"]);
		const endless = Readable.from(
			(function* () {
				for (;;) yield Buffer.alloc(65_536, "x");
			})(),
		);
		const feeding = pipeline(endless, head.stdin).catch((error: unknown) => error);
		expect((await head.wait()).stdout).toBe("xxx");
		expect(await feeding).toMatchObject({ code: "ERR_STREAM_PREMATURE_CLOSE" });
	});

	test("it is signalled, ended by its limit, by a signal of the caller and by leaving the block", async () => {
		const told = spawn(box, "trap 'exit 9' USR1; echo up; while :; do sleep 0.1; done");
		for await (const line of told.lines()) {
			expect(line).toBe("up");
			break;
		}
		expect(await told.kill("SIGUSR1")).toBe(true);
		expect((await told.wait()).exitCode).toBe(9);
		expect(await told.kill()).toBe(false);
		const limited = spawn(box, "sleep 71 & sleep 71", { timeoutMs: 300 });
		expect(await limited.wait()).toMatchObject({ timedOut: true, exitCode: 143 });
		const reason = new Error("enough");
		const aborted = spawn(box, "sleep 71", { signal: AbortSignal.timeout(200) });
		await expect(aborted.wait()).rejects.toMatchObject({ name: "TimeoutError" });
		const never = spawn(box, "echo >never", { signal: AbortSignal.abort(reason) });
		await expect(never.wait()).rejects.toBe(reason);
		{
			await using left = spawn(box, "setsid sleep 71 & sleep 71");
			await left.pid;
		}
		expect(await box.processes()).not.toContain("sleep 71");
		expect((await box.exec("ls never")).exitCode).not.toBe(0);
	});

	test("web streams carry the same", async () => {
		await using cat = spawn(box, "cat; echo done >&2");
		const { stdin, stdout, stderr } = cat.toWeb();
		const writer = stdin.getWriter();
		await writer.write(new TextEncoder().encode("hällo"));
		const texts = Promise.all([stdout, stderr].map((stream) => new Response(stream as ReadableStream).text()));
		await writer.close();
		expect(await texts).toEqual(["hällo", "done\n"]);
		expect((await cat.wait()).exitCode).toBe(0);
	});

	test("a terminal has its size from the start, takes keys, and ends as its command does", async () => {
		await using terminal = open(box, ["sh"], { columns: 123, rows: 45, env: { PS1: "" } });
		let shown = "";
		const off = terminal.onData((chunk) => {
			shown += chunk;
		});
		await terminal.write("stty size; echo $TERM\n");
		await expect.poll(() => shown).toContain("45 123\r\nxterm-256color");
		await terminal.resize({ columns: 90, rows: 30 });
		await terminal.write("stty size\n");
		await expect.poll(() => shown).toContain("30 90");
		await terminal.write("sleep 72\n");
		await expect.poll(async () => await box.processes()).toContain("sleep 72");
		await terminal.write("\x03");
		await expect.poll(async () => await box.processes()).not.toContain("sleep 72");
		await terminal.write("exit 6\n");
		expect(await terminal.wait()).toMatchObject({ exitCode: 6, stdout: "" });
		await terminal.write("nobody is there\n");
		off();
	});

	test("a terminal is iterated over, and hung up", async () => {
		const terminal = open(box, "echo here; exec sleep 73");
		let shown = "";
		for await (const chunk of terminal) {
			shown += chunk;
			if (shown.includes("here")) await terminal.kill();
		}
		expect(shown).toBe("here\r\n");
		expect((await terminal.wait()).exitCode).toBe(129);
	});

	test("a shell text runs with arguments, stdin and a status of its own, and leaves no file", async () => {
		const before = (await box.exec("ls -A . /tmp")).stdout;
		const source = `read -r x; echo "$1,$2,$x"; exit 5`;
		const end = await run(box, "sh", source, { args: ["a b", "-n"], stdin: "in\n" });
		expect(end).toMatchObject({ stdout: "a b,-n,in\n", exitCode: 5 });
		const long = `${"# filler\n".repeat(20_000)}echo "$# $1"; cat`;
		expect(await run(box, "sh", long, { args: ["x"] })).toMatchObject({ stdout: "1 x\n", exitCode: 0 });
		expect(await run(box, "sh", "while :; do :; done", { timeoutMs: 300 })).toMatchObject({ timedOut: true });
		expect((await box.exec("ls -A . /tmp")).stdout).toBe(before);
		expect((await run(box, "python", "print(1)")).exitCode).toBe(127);
	});

	test("the container's end ends the streams and is told by wait() and lines()", async () => {
		const other = await boxes.make({ image: NODE });
		const command = spawn(other, "echo up; sleep 74");
		const seen: string[] = [];
		const failure = await (async () => {
			for await (const line of command.lines()) {
				seen.push(line);
				await boxes.engine.removeContainer(other.target.id);
			}
		})().catch((error: unknown) => error);
		expect(seen).toEqual(["up"]);
		expect(isSandboxError(failure, "gone") || isSandboxError(failure, "stopped")).toBe(true);
		await expect(command.wait()).rejects.toBe(failure);
	});
});

test("a node text runs with arguments and stdin, long or short", async () => {
	const box = await boxes.make({ image: NODE });
	const source = `console.log(process.argv.slice(1), require("fs").readFileSync(0, "utf8")); process.exitCode = 3`;
	const expected = "[ 'a', '--version' ] in\n";
	const args = ["a", "--version"];
	expect(await run(box, "node", source, { args, stdin: "in" })).toMatchObject({ stdout: expected, exitCode: 3 });
	const long = `${"// filler\n".repeat(20_000)}${source}`;
	expect(await run(box, "node", long, { args })).toMatchObject({ stdout: "[ 'a', '--version' ] \n", exitCode: 3 });
	const thrown = await run(box, "node", "throw new Error('no')");
	expect([thrown.exitCode, thrown.stderr.includes("Error: no")]).toEqual([1, true]);
	await box.exec("echo 'export const x = 5' >m.mjs");
	expect((await run(box, "node", "import('./m.mjs').then((m) => console.log(m.x))")).stdout).toBe("5\n");
	expect(
		(await run(box, "node", `${"// filler\n".repeat(20_000)}import('/workspace/m.mjs').then((m) => console.log(m.x))`))
			.stdout,
	).toBe("5\n");
});

test("a python text runs with arguments and stdin, long or short, imports from the workspace and leaves nothing there", async () => {
	const fleet = makeFleet();
	try {
		const box = await fleet.sandboxes.create("py", { runtime: "python" });
		await box.exec("echo 'x = 5' >m.py");
		const source = "import sys, m\nprint(sys.argv[1:], sys.stdin.read(), m.x, __name__)\nsys.exit(3)";
		const end = await box.run("python", source, { args: ["a", "-b"], stdin: "in" });
		expect(end).toMatchObject({ stdout: "['a', '-b'] in 5 __main__\n", exitCode: 3 });
		const long = `${"# filler\n".repeat(20_000)}${source}`;
		expect(await box.run("python", long, { args: ["a"] })).toMatchObject({
			stdout: "['a']  5 __main__\n",
			exitCode: 3,
		});
		expect((await box.run("python", "1/0")).stderr).toContain("ZeroDivisionError");
		expect((await box.exec("ls -A")).stdout).toBe("m.py\n");
	} finally {
		await fleet.dispose();
	}
});

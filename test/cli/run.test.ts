import { EventEmitter } from "node:events";
import { PassThrough } from "node:stream";
import { describe, expect, test } from "vitest";
import type { Io, Signals } from "../../src/cli/io.js";
import { run } from "../../src/cli/run.js";
import { DEFAULT_PREFIX, DEFAULT_RUNTIME, DEFAULTS, formatDuration, formatSize } from "../../src/index.js";

async function runHere(...argv: string[]): Promise<{ status: number; stdout: string; stderr: string }> {
	const [stdout, stderr] = [new PassThrough(), new PassThrough()];
	const io: Io = {
		stdin: new PassThrough(),
		stdout,
		stderr,
		env: { SANDBOXES_ROOT: "/nonexistent/root" },
		signals: new EventEmitter() as Signals,
		endBy: () => {},
		stdinKind: () => "nothing",
		passOutputUnchanged: () => {},
	};
	const text = (stream: PassThrough): string => String(stream.read() ?? "");
	const status = await run(argv, io);
	return { status, stdout: text(stdout), stderr: text(stderr) };
}

describe("bad words end with status 2, name what is wrong and hint at what was meant", () => {
	test.each([
		[["lst"], /unknown command 'lst'/, /did you mean .*list/],
		[["create", "w", "--memroy", "1g"], /unknown option '--memroy'/, /did you mean --memory/],
		[["create"], /missing required argument 'name'/, /hint: /],
		[["create", "w", "x"], /too many arguments/, /hint: /],
		[["create", "w", "--memory"], /argument missing/, /hint: /],
		[["create", "w", "--memory", "much"], /--memory: .*"much"/, /./],
		[["create", "w", "--cpus", "x"], /--cpus: .*"x"/, /./],
		[["create", "w", "--network", "host"], /--network: .*"host"/, /./],
		[["create", "w", "--publish", "x"], /--publish: .*"x"/, /./],
		[["create", "w", "--mount", "x"], /--mount: .*"x"/, /./],
		[["create", "Bad Name"], /name: expected/, /./],
		[["create", "w", "--image", "a", "--runtime", "b"], /either --runtime or --image/, /./],
		[["create", "w", "--runtime", "nod"], /did you mean "node"/, /./],
		[["--prefix", "NO", "list"], /prefix: expected/, /./],
		[["--engine", "ssh://x", "list"], /ssh:\/\/ is not supported/, /./],
		[["help", "bogus"], /unknown command 'bogus'/, /hint: /],
		[["create", "w", "--zzzzzzzz"], /unknown option '--zzzzzzzz'/, /hint: sbx create --help/],
		[["images", "build", "x", "--zzzzzzzz"], /unknown option/, /hint: sbx images build --help/],
		[["--root", "/", "list"], /root: /, /./],
		[["images", "buidl", "node"], /unknown command 'buidl'/, /did you mean build/],
		[["remove"], /at least one name/, /hint: sbx remove --all/],
		[["remove", "w", "--all"], /either --all or names/, /./],
		[["list", "x"], /too many arguments/, /./],
		[["ps"], /missing required argument 'name'/, /hint: /],
		[["logs", "w"], /missing required argument 'id'/, /hint: /],
		[["logs", "w", "p", "--tail", "-1"], /--tail: .*"-1"/, /./],
		[["kill", "w"], /missing required argument 'id'/, /hint: /],
		[["kill", "w", "p", "-s", "HUP", "--rm"], /--rm: expected no -s/, /./],
	])("%j", async (argv, message, hint) => {
		const { status, stdout, stderr } = await runHere(...argv);
		expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
		expect(stderr).toMatch(/^sbx: /);
		expect(stderr).toMatch(message);
		expect(stderr).toMatch(hint);
		expect(stderr).not.toMatch(/\n\s+at /);
	});
});

describe("bad words of exec and wait end with 125, because 2 may be the command's own", () => {
	test.each([
		[["exec", "--nosuch", "w", "--", "ls"]],
		[["exec", "w"]],
		[["exec"]],
		[["exec", "w", "-c", "ls", "--", "ls"]],
		[["exec", "w", "--timeout", "soon", "--", "ls"]],
		[["exec", "w", "-t", "--", "ls"]],
		[["exec", "w", "-t", "--json", "--", "ls"]],
		[["exec", "No Name", "--", "ls"]],
		[["--nosuch", "exec", "w", "--", "ls"]],
		[["exec", "w", "--name", "p", "--", "ls"]],
		[["exec", "-d", "w"]],
		[["exec", "-d", "-i", "w", "--", "ls"]],
		[["exec", "-d", "-t", "w", "--", "ls"]],
		[["exec", "-dit", "w", "--", "ls"]],
		[["exec", "-d", "--timeout", "none", "w", "--", "ls"]],
		[["exec", "-d", "--user", "root", "w", "--", "ls"]],
		[["wait", "w"]],
		[["wait", "w", "p", "--timeout", "soon"]],
		[["wait", "No Name", "p"]],
	])("%j", async (argv) => {
		const { status, stdout, stderr } = await runHere(...argv);
		expect({ status, stdout }).toEqual({ status: 125, stdout: "" });
		expect(stderr).toMatch(argv.includes("--json") ? /^\{"error":/ : /^sbx: /);
	});
});

test("logs --follow has no --json", async () => {
	const { status, stderr } = await runHere("logs", "-f", "w", "p", "--json");
	expect({ status, code: JSON.parse(stderr).error.code }).toEqual({ status: 2, code: "invalid_input" });
});

test("with --json a failure is one line of JSON on stderr, before or after the command", async () => {
	for (const argv of [
		["--json", "create", "Bad Name"],
		["create", "Bad Name", "--json"],
	]) {
		const { status, stdout, stderr } = await runHere(...argv);
		expect({ status, stdout, lines: stderr.split("\n").length }).toEqual({ status: 2, stdout: "", lines: 2 });
		expect(JSON.parse(stderr)).toMatchObject({ error: { code: "invalid_input", details: { field: "name" } } });
	}
	expect(JSON.parse((await runHere("lst", "--json")).stderr)).toMatchObject({ error: { code: "usage" } });
});

test("--json as the value of another option is no wish for JSON", async () => {
	expect((await runHere("exec", "-e", "--json", "Bad Name", "--", "ls")).stderr).toMatch(/^sbx: name: /);
});

test("--json behind -- is the command's, so a failure stays words", async () => {
	expect((await runHere("exec", "Bad Name", "--", "ls", "--json")).stderr).toMatch(/^sbx: name: /);
});

describe("help", () => {
	test("of create tells the library's own defaults", async () => {
		const { status, stdout, stderr } = await runHere("create", "--help");
		expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
		const text = stdout.replace(/\s+/g, " ");
		expect(text).toContain(`(default: ${DEFAULT_RUNTIME})`);
		expect(text).toContain(`memory ceiling (default: ${formatSize(DEFAULTS.memory)}; browser: 1 GiB)`);
		expect(text).toContain(`(default: ${formatDuration(DEFAULTS.idleTimeoutMs)})`);
		expect(text).toContain(`(default: ${formatDuration(DEFAULTS.maxLifetimeMs)})`);
		expect(text).toContain(`(default: ${DEFAULTS.cpus})`);
		expect(text).toContain(`default: ${DEFAULT_PREFIX})`);
	});

	test.each([
		["create"],
		["plan"],
		["exec"],
		["ps"],
		["logs"],
		["wait"],
		["kill"],
		["list"],
		["stop"],
		["remove"],
		["images"],
		["images", "build"],
	])("of %s %s is on stdout and tells the global options", async (...words) => {
		const { status, stdout, stderr } = await runHere(...words, "--help");
		expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
		expect(stdout).toMatch(/^Usage: sbx /);
		if (words[0] !== "images" || words[1])
			for (const option of ["--root", "--prefix", "--json"]) expect(stdout).toContain(option);
	});

	test("lists every command, and is the answer to no words at all, with status 2", async () => {
		const { status, stdout, stderr } = await runHere();
		expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
		for (const command of [
			"create",
			"plan",
			"exec",
			"ps",
			"logs",
			"wait",
			"kill",
			"list|ls",
			"stop",
			"remove|rm",
			"images",
		]) {
			expect(stderr).toContain(`  ${command}`);
		}
	});
});

test("the version is told before and after a command", async () => {
	for (const argv of [["--version"], ["-V"], ["list", "--version"], ["exec", "--version"], ["--json", "--version"]]) {
		const { status, stdout } = await runHere(...argv);
		expect(status).toBe(0);
		expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
	}
});

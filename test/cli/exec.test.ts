import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { docker, TEST_IMAGE } from "../support/fleet.js";
import { buildProgramOnce, type CliFleet, makeCliFleet, SBX } from "./sbx.js";

let fleet: CliFleet;

beforeAll(async () => {
	buildProgramOnce();
	fleet = makeCliFleet();
	expect(await fleet.sbx(["create", "w", "--image", TEST_IMAGE])).toMatchObject({ status: 0 });
});
afterAll(() => fleet?.dispose());

const exec = (...words: string[]) => fleet.sbx(["exec", "w", ...words]);

/** Whether a process with this text among its words still runs in the sandbox, once it has had time to end. */
async function runsInside(text: string): Promise<boolean> {
	for (let tries = 0; tries < 40; tries++) {
		const table = await docker("top", `${fleet.prefix}-w`, "-eo", "pid,args");
		if (!table.includes(text)) return false;
		await new Promise((resolve) => setTimeout(resolve, 100));
	}
	return true;
}

/** Resolves when the output has begun. */
function untilOutput(child: { stdout: NodeJS.ReadableStream }): Promise<void> {
	return new Promise((resolve) => child.stdout.once("data", () => resolve()));
}

describe("streams", () => {
	test("stdout and stderr stay apart", async () => {
		const both = ["--", "sh", "-c", "echo out; echo err >&2"];
		expect(await exec(...both)).toMatchObject({ status: 0, stdout: "out\n", stderr: "err\n" });
		expect((await fleet.shell("sbx exec w -- sh -c 'echo out; echo err >&2' 2>/dev/null | cat")).stdout).toBe("out\n");
		expect((await fleet.shell("sbx exec w -- sh -c 'echo out; echo err >&2' 2>&1 >/dev/null")).stdout).toBe("err\n");
	});

	test("stdin is passed on as it is, to its end", async () => {
		expect((await fleet.shell("printf 'a\\n' | sbx exec w -- cat | od -c")).stdout).toMatch(
			/^0000000 +a +\\n\n0000002\n$/,
		);
		expect(
			(
				await fleet.shell('printf \'one\\ntwo\' > "$F"; sbx exec w -- cat < "$F"', {
					env: { F: `${fleet.root}/../in` },
				})
			).stdout,
		).toBe("one\ntwo");
	});

	test("without anything on stdin the command reads its end at once", async () => {
		expect(await exec("--", "cat")).toMatchObject({ status: 0, stdout: "" });
		expect(await fleet.shell("sbx exec w -- cat <&-")).toMatchObject({ status: 0, stdout: "" });
	});

	test("bytes go in and come out unchanged, whatever they are and however many", async () => {
		const bytes = randomBytes(3 * 1024 * 1024);
		const ended = await fleet.sbx(["exec", "w", "--", "cat"], { stdin: bytes });
		expect({ status: ended.status, stderr: ended.stderr }).toEqual({ status: 0, stderr: "" });
		expect(ended.bytes.equals(bytes)).toBe(true);
	});

	test("output comes while the command runs", async () => {
		const started = Date.now();
		let firstMs = 0;
		const ended = await fleet.sbx(["exec", "w", "-c", "echo first; sleep 3; echo last"], {
			started: (child) => child.stdout.once("data", () => (firstMs = Date.now() - started)),
		});
		expect(ended.stdout).toBe("first\nlast\n");
		expect(firstMs).toBeLessThan(Date.now() - started - 2000);
	});

	test("a reader that leaves early ends the command, quietly", async () => {
		const { stdout, stderr } = await fleet.shell(
			'{ sbx exec w -- yes early-reader; echo "status $?" >&2; } | head -n 1',
		);
		expect({ stdout, stderr }).toEqual({ stdout: "early-reader\n", stderr: "status 141\n" });
		expect(await runsInside("early-reader")).toBe(false);
	});
});

describe("output that cannot be written", () => {
	test("a reader of stderr that leaves ends the command as one of stdout does", async () => {
		const { stdout, stderr } = await fleet.shell(
			'{ sbx exec w -c "yes stderr-reader >&2" 2>&1 >/dev/null; echo "status $?" >&3; } 3>&2 | head -n 1',
		);
		expect({ stdout, stderr }).toEqual({ stdout: "stderr-reader\n", stderr: "status 141\n" });
		expect(await runsInside("stderr-reader")).toBe(false);
	});

	test.skipIf(!existsSync("/dev/full")).each([
		["exec w -- echo hi", 125],
		["exec w -- yes full-disk", 125],
		["ls", 1],
		["--version", 1],
		["--help", 1],
	])("%s on a full disk is a failure that names it", async (line, status) => {
		const ended = await fleet.shell(`sbx ${line} >/dev/full`);
		expect(ended.status).toBe(status);
		expect(ended.stderr).toMatch(/^sbx: the output could not be written: ENOSPC[^\n]*\n$/);
	});
});

describe("words", () => {
	test("behind -- and behind the first word they are the command's, untouched", async () => {
		const odd = ["--json", "-t", "--", "a b", "$HOME", "*", "", "--root", "'\""];
		const expected = `${odd.join("\n")}\n`;
		const print = ["sh", "-c", 'for word; do printf "%s\\n" "$word"; done', "sh"];
		expect((await exec("--", ...print, ...odd)).stdout).toBe(expected);
		expect((await exec(...print, ...odd)).stdout).toBe(expected);
	});

	test("-c is a shell command in one string", async () => {
		expect((await exec("-c", "echo $((1 + 1)) | cat")).stdout).toBe("2\n");
	});

	test("--env, --cwd and --user reach the command", async () => {
		const ended = await fleet.sbx(
			["exec", "w", "-e", "A=x y", "-e", "B", "--cwd", "/tmp", "-u", "4321:4321", "-c", 'echo "$A $B $PWD $(id -u)"'],
			{
				env: { B: "taken" },
			},
		);
		expect(ended.stdout).toBe("x y taken /tmp 4321\n");
	});
});

describe("statuses", () => {
	test.each([0, 1, 2, 7, 124, 125, 126, 127, 255])("%i of the command is passed on without a word", async (status) => {
		expect(await exec("-c", `exit ${status}`)).toMatchObject({ status, stdout: "", stderr: "" });
	});

	test("a command that says no says it alone", async () => {
		expect(await exec("--", "grep", "foo", "/dev/null")).toMatchObject({ status: 1, stdout: "", stderr: "" });
	});

	test("a command ended by a signal is 128 and the signal's number", async () => {
		expect((await exec("-c", "kill -9 $$")).status).toBe(137);
		expect((await exec("-c", "kill -TERM $$")).status).toBe(143);
	});

	test("127 is a program that is not there, 126 one that cannot be run, explained on stderr", async () => {
		for (const [words, status] of [
			[["nosuchcmd"], 127],
			[["-c", "nosuchcmd"], 127],
			[["/etc"], 126],
			[["/etc/passwd"], 126],
		] as const) {
			const ended = await exec(...(words[0] === "-c" ? words : ["--", ...words]));
			expect(ended).toMatchObject({ status, stdout: "" });
			expect(ended.stderr).not.toBe("");
		}
	});

	test("an unknown name is 125, says how to create it, and creates nothing", async () => {
		const ended = await fleet.sbx(["exec", "none", "--", "ls"]);
		expect(ended).toMatchObject({ status: 125, stdout: "" });
		expect(ended.stderr).toMatch(
			/^sbx: sandbox none: there is none of this name .*\nhint: create it first: .*sbx create none\n$/,
		);
		expect(JSON.parse((await fleet.sbx(["ls", "--json"])).stdout)).toHaveLength(1);
	});

	test("a working directory that is not there is 125", async () => {
		const ended = await exec("--cwd", "/nosuch", "--", "true");
		expect(ended).toMatchObject({ status: 125, stdout: "" });
		expect(ended.stderr).toMatch(/^sbx: .*\/nosuch/);
	});

	test("a time limit is 124, said on stderr, with the output so far; nothing of the command is left", async () => {
		const ended = await exec("--timeout", "1s", "-c", "echo begun; sleep 4242");
		expect(ended).toMatchObject({ status: 124, stdout: "begun\n" });
		expect(ended.stderr).toBe("sbx: w: the command was ended after 1s (--timeout)\n");
		expect(await runsInside("sleep 4242")).toBe(false);
	});
});

describe("--json", () => {
	test("gives the result as one object and ends with the command's status", async () => {
		const ended = await exec("--json", "-c", "echo out; echo err >&2; exit 3");
		expect({ status: ended.status, stderr: ended.stderr }).toEqual({ status: 3, stderr: "" });
		const { durationMs, ...answer } = JSON.parse(ended.stdout);
		expect(answer).toEqual({ exitCode: 3, stdout: "out\n", stderr: "err\n", timedOut: false, truncated: false });
		expect(durationMs).toBeGreaterThan(0);
	});

	test("tells a time limit, and failures of ours on stderr", async () => {
		const ended = await exec("--json", "--timeout", "500ms", "--", "sleep", "60");
		expect({ status: ended.status, stderr: ended.stderr }).toEqual({ status: 124, stderr: "" });
		expect(JSON.parse(ended.stdout)).toMatchObject({ timedOut: true });
		const none = await fleet.sbx(["--json", "exec", "none", "--", "ls"]);
		expect({ status: none.status, stdout: none.stdout }).toEqual({ status: 125, stdout: "" });
		expect(JSON.parse(none.stderr)).toMatchObject({ error: { code: "not_found", details: { name: "none" } } });
	});
});

describe("signals", () => {
	test.each([
		["SIGINT", 130],
		["SIGTERM", 143],
		["SIGHUP", 129],
		["SIGQUIT", 131],
	] as const)("%s ends the command with all it started, and the status is %i", async (signal, status) => {
		const seconds = `5${status}`;
		const ended = await exec_(["-c", `trap '' TERM; setsid sleep ${seconds} & echo up; sleep ${seconds}`], (child) =>
			untilOutput(child).then(() => child.kill(signal)),
		);
		expect(ended).toMatchObject({ status, signal: null, stdout: "up\n" });
		expect(ended.stderr).toBe(`sbx: ended by ${signal}\n`);
		expect(await runsInside(`sleep ${seconds}`)).toBe(false);
	});

	test("SIGUSR1 does nothing", async () => {
		const ended = await exec_(["-c", "echo up; sleep 1; exit 4"], (child) =>
			untilOutput(child).then(() => child.kill("SIGUSR1")),
		);
		expect(ended).toMatchObject({ status: 4, stderr: "" });
	});

	test("SIGTERM is heard while nobody reads the output", async () => {
		const ended = await exec_(["--", "yes", "unread"], (child) => {
			child.stdout.pause();
			child.stdout.once("readable", () => setTimeout(() => child.kill("SIGTERM"), 500));
		});
		expect(ended.status).toBe(143);
		expect(await runsInside("yes unread")).toBe(false);
	});

	function exec_(
		words: readonly string[],
		started: (child: import("node:child_process").ChildProcessWithoutNullStreams) => unknown,
	) {
		return fleet.sbx(["exec", "w", ...words], { started: (child) => void started(child) });
	}
});

describe("-t", () => {
	/** The program on a terminal of this size, as util-linux's `script` makes one; `type` is typed once `until` is seen. */
	function onTerminal(line: string, { until = "", type = "" } = {}): Promise<{ status: number | null; text: string }> {
		const { NODE_EXTRA_CA_CERTS: _certs, ...env } = process.env;
		return new Promise((resolve, reject) => {
			const command = `stty rows 33 cols 111; ${line}; echo "status=$?"; stty -a | grep -o -- '-\\?icanon'`;
			const child = spawn("script", ["-qec", command, "/dev/null"], {
				env: { ...env, ...fleet.env, SBX, NODE: process.execPath, SHELL: "/bin/sh", TERM: "vt100" },
				stdio: ["pipe", "pipe", "inherit"],
			});
			let text = "";
			let typed = false;
			child.stdout.on("data", (chunk: Buffer) => {
				text += chunk.toString();
				if (type === "" || typed || !text.includes(until)) return;
				typed = true;
				child.stdin.write(type);
			});
			child.on("error", reject);
			child.on("close", (status) => resolve({ status, text: text.replaceAll("\r\n", "\n") }));
		});
	}

	test("gives the command a terminal of the caller's size and type, its status, and the terminal back as it was", async () => {
		const { text } = await onTerminal(`"$NODE" "$SBX" exec -t w -c 'tty; stty size; echo "$TERM"; exit 5'`);
		expect(text).toMatch(/^\/dev\/pts\/\d+\n33 111\nvt100\nstatus=5\nicanon\n/);
	});

	test("keys go to the command, Ctrl-C too", async () => {
		const { text } = await onTerminal(
			`"$NODE" "$SBX" exec -it w -c 'trap "echo caught; exit 9" INT; echo ready; while :; do sleep 0.1; done'`,
			{
				until: "ready",
				type: "\u0003",
			},
		);
		expect(text).toMatch(/caught\nstatus=9\nicanon\n/);
	});

	test("the terminal's new size reaches the command", async () => {
		const inside = 'trap "stty size; exit 0" WINCH; echo ready; while :; do sleep 0.1; done';
		const { text } = await onTerminal(
			`t=$(tty); { sleep 3; stty rows 44 cols 99 < "$t"; } & timeout --foreground 30 "$NODE" "$SBX" exec -t w -c '${inside}'`,
		);
		expect(text).toContain("ready\n44 99\n");
	});

	test("the terminal is given back after a signal", async () => {
		const { text } = await onTerminal(
			`{ sleep 3; pkill -TERM -f "^[^ ]* $SBX exec -t w -c echo held"; } & "$NODE" "$SBX" exec -t w -c 'echo held; sleep 60'`,
		);
		expect(text).toContain("held\n");
		expect(text).toMatch(/status=143\nicanon\n/);
	});

	test("the terminal is given back when the program is ended at once", async () => {
		const script = `import(process.env.MODULE).then(({ processIo, endBy }) => {
			process.on("SIGTERM", () => {});
			process.stdin.setRawMode(true);
			processIo().passOutputUnchanged();
			endBy("SIGTERM");
			setTimeout(() => {}, 5000);
		})`;
		const { text } = await onTerminal(
			`MODULE='${fileURLToPath(new URL("../../src/cli/process-io.ts", import.meta.url))}' "$NODE" --import tsx -e '${script}'; echo "status=$?"; stty -a | grep -o -- '-\\?opost'`,
		);
		expect(text).toContain("status=143\nopost\n");
		expect(text).toMatch(/\nicanon\n/);
	});

	test("a terminal that vanishes ends command and program, without a trace of Node's", async () => {
		const told = join(fleet.root, "..", "vanished");
		const { NODE_EXTRA_CA_CERTS: _certs, ...env } = process.env;
		// The first process of a terminal is the one that hears of its end.
		const line = `echo $$ >"$TOLD"; exec "$NODE" "$SBX" exec -t w -c 'echo held; sleep 5678' 2>"$TOLD.err"`;
		const child = spawn("script", ["-qec", line, "/dev/null"], {
			env: { ...env, ...fleet.env, SBX, NODE: process.execPath, SHELL: "/bin/sh", TOLD: told },
			stdio: ["pipe", "pipe", "inherit"],
		});
		await Promise.race([untilOutput(child), once(child, "close")]);
		child.kill("SIGKILL");
		const words = `/proc/${readFileSync(told, "utf8").trim()}/cmdline`;
		await expect.poll(() => existsSync(words) && readFileSync(words, "utf8"), { timeout: 10_000 }).toBeFalsy();
		expect(readFileSync(`${told}.err`, "utf8")).toBe("sbx: ended by SIGHUP\n");
		expect(await runsInside("sleep 5678")).toBe(false);
	});

	test("without a terminal on stdin it is refused, with what to do", async () => {
		const ended = await fleet.shell("sbx exec -t w -- true </dev/null");
		expect(ended).toMatchObject({ status: 125, stdout: "" });
		expect(ended.stderr).toMatch(/^sbx: --tty: .*\nhint: .*\n$/);
	});

	test("is never taken by itself: output on a terminal has no carriage returns of the sandbox's", async () => {
		const { text } = await onTerminal(`"$NODE" "$SBX" exec w -- sh -c 'tty; echo done'`);
		expect(text).toMatch(/^not a tty\ndone\nstatus=0\n/);
	});
});

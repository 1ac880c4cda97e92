import type { ChildProcessWithoutNullStreams } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TEST_IMAGE } from "../support/fleet.js";
import { buildProgramOnce, type CliFleet, makeCliFleet, SBX } from "./sbx.js";

let fleet: CliFleet;

beforeAll(async () => {
	buildProgramOnce();
	fleet = makeCliFleet();
	for (const name of ["w", "stopping"]) {
		expect(await fleet.sbx(["create", name, "--image", TEST_IMAGE])).toMatchObject({ status: 0 });
	}
});
afterAll(() => fleet?.dispose());

interface Listed {
	readonly id: string;
	readonly name?: string;
	readonly pid: number;
	readonly state: string;
	readonly command: unknown;
	readonly exitCode?: number;
}

async function start(shellCommand: string, ...options: string[]): Promise<string> {
	const { status, stdout, stderr } = await fleet.sbx(["exec", "-d", ...options, "w", "-c", shellCommand]);
	expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
	expect(stdout).toMatch(/^[0-9a-f]{16}\n$/);
	return stdout.trim();
}

async function listed(id: string, sandbox = "w"): Promise<Listed> {
	const { stdout } = await fleet.sbx(["ps", sandbox, "--json"]);
	const found = (JSON.parse(stdout) as Listed[]).find((info) => info.id === id);
	if (!found) throw new Error(`no process ${id} in ${stdout}`);
	return found;
}

/** Signals the program as soon as its output has begun. */
const onceItSpeaks = (signal: NodeJS.Signals) => ({
	started: (child: ChildProcessWithoutNullStreams) => child.stdout.once("data", () => child.kill(signal)),
});

describe("exec -d", () => {
	test("leaves a process that another sbx finds, reads and ends", async () => {
		const id = await start("echo out; echo err >&2; exec sleep 1000", "--name", "web");
		expect(await listed(id)).toMatchObject({ id, name: "web", state: "running" });
		const table = await fleet.sbx(["ps", "w"]);
		expect(table.stdout).toMatch(/^ID +NAME +PID +STATE +STARTED +COMMAND\n/);
		expect(table.stdout).toMatch(new RegExp(`\n${id} +web +\\d+ +running +\\d+m?\\d*s ago +echo out; echo err`));
		const follow = await fleet.sbx(["logs", "-f", "w", "web"], onceItSpeaks("SIGINT"));
		expect(follow).toMatchObject({ stdout: "out\n" });
		expect(await fleet.sbx(["logs", "w", id])).toMatchObject({ status: 0, stdout: "out\n", stderr: "err\n" });
		expect(await fleet.sbx(["kill", "w", "web"])).toMatchObject({ status: 0, stdout: "web: killed\n" });
		expect(await listed(id)).toMatchObject({ state: "exited", exitCode: 143 });
		expect((await fleet.sbx(["ps", "w"])).stdout).toMatch(/ exited \(143\) /);
	});

	test("hands on words, directory and variables, and tells all with --json", async () => {
		const { status, stdout } = await fleet.sbx(
			["exec", "--json", "-d", "--cwd", "/tmp", "-e", "A=x y", "w", "--", "sh", "-c", 'echo "$A $PWD $1"', "sh", "-d"],
			{ stdin: "not for it" },
		);
		const info = JSON.parse(stdout) as Listed;
		expect({ status, ...info }).toMatchObject({
			status: 0,
			state: "running",
			cwd: "/tmp",
			command: { 0: "sh", 4: "-d" },
		});
		expect(await fleet.sbx(["wait", "w", info.id])).toMatchObject({ status: 0, stdout: "", stderr: "" });
		expect((await fleet.sbx(["logs", "w", info.id])).stdout).toBe("x y /tmp -d\n");
	});

	test("what it started survives a kill -9 of whoever reads it", async () => {
		const id = await start("while :; do echo tick; sleep 0.1; done");
		const follow = await fleet.sbx(["logs", "-f", "w", id], onceItSpeaks("SIGKILL"));
		expect(follow.signal).toBe("SIGKILL");
		expect(await listed(id)).toMatchObject({ state: "running" });
		expect(await fleet.sbx(["kill", "--rm", "w", id])).toMatchObject({ status: 0 });
	});

	test("a kill -9 of the starting sbx leaves a process that can be found and ended", async () => {
		const { processes } = await fleet.sandboxes.get("w");
		await fleet.sbx(["exec", "-d", "--name", "orphan", "w", "--", "sleep", "2000"], {
			started: async (child) => {
				// As soon as the process is there, while its sbx may still be at work.
				while (child.exitCode === null && !(await processes.find("orphan"))) await sleep(5);
				child.kill("SIGKILL");
			},
		});
		const { stdout } = await fleet.sbx(["ps", "w", "--json"]);
		const found = (JSON.parse(stdout) as Listed[]).find(({ name }) => name === "orphan");
		expect(found).toMatchObject({ state: "running", command: ["sleep", "2000"] });
		expect(await fleet.sbx(["kill", "w", "orphan"])).toMatchObject({ status: 0, stdout: "orphan: killed\n" });
	});

	test("a program that is not there is told by its status and its log; a directory that is not there by 125", async () => {
		const started = await fleet.sbx(["exec", "-d", "w", "--", "nosuchcmd"]);
		expect(started.status).toBe(0);
		expect((await fleet.sbx(["wait", "w", started.stdout.trim()])).status).toBe(127);
		expect((await fleet.sbx(["logs", "w", started.stdout.trim()])).stderr).toContain("nosuchcmd");
		expect(await fleet.sbx(["exec", "-d", "--cwd", "/nosuch", "w", "--", "ls"])).toMatchObject({
			status: 125,
			stdout: "",
		});
	});
});

describe("ps", () => {
	test("shows a hostile command on one line, without control characters", async () => {
		const id = await start("exec sleep 1000");
		const home = (await fleet.sbx(["exec", "w", "-c", "echo $HOME"])).stdout.trim();
		const command = "a\nb \u001b]0;owned\u0007\u001b[2J\u009b\u202e";
		const spec = { v: 1, id, name: "x", command, cwd: "/", startedAtMs: 9e15 };
		await fleet.sbx(["exec", "w", "-c", `cat > ${home}/.sandboxes/processes/${id}/spec`], {
			stdin: JSON.stringify(spec),
		});
		const { status, stdout } = await fleet.sbx(["ps", "w"]);
		expect(status).toBe(0);
		const line = stdout.split("\n").find((candidate) => candidate.startsWith(id));
		expect(line).toMatch(/ - +a\\nb \\u001b\]0;owned\\u0007\\u001b\[2J\\u009b\\u202e$/);
		expect((await listed(id)).command).toBe(command);
		expect(await fleet.sbx(["kill", "--rm", "w", id])).toMatchObject({ status: 0, stdout: `${id}: removed\n` });
	});

	test("of nothing is its heads, and an empty array", async () => {
		expect((await fleet.sbx(["ps", "stopping"])).stdout).toMatch(/^ID .*COMMAND\n$/);
		expect((await fleet.sbx(["ps", "stopping", "--json"])).stdout).toBe("[]\n");
	});
});

describe("logs", () => {
	test("-f prints what comes until the process has ended, each stream where it belongs", async () => {
		const id = await start("for i in 1 2 3; do echo out $i; echo err $i >&2; sleep 0.3; done");
		expect(await fleet.sbx(["logs", "-f", "w", id])).toEqual(
			expect.objectContaining({ status: 0, stdout: "out 1\nout 2\nout 3\n", stderr: "err 1\nerr 2\nerr 3\n" }),
		);
	});

	test("-f ends with Ctrl-C, and only the following ends", async () => {
		const id = await start("echo up; exec sleep 1000");
		const follow = await fleet.sbx(["logs", "-f", "w", id], onceItSpeaks("SIGINT"));
		expect(follow).toMatchObject({ status: 130, signal: null, stdout: "up\n", stderr: "sbx: ended by SIGINT\n" });
		expect(await listed(id)).toMatchObject({ state: "running" });
		await fleet.sbx(["kill", "--rm", "w", id]);
	});

	test("--tail begins with the last lines", async () => {
		const id = await start("seq 1 100");
		await fleet.sbx(["wait", "w", id]);
		expect(await fleet.sbx(["logs", "--tail", "2", "w", id])).toMatchObject({
			status: 0,
			stdout: "99\n100\n",
			stderr: "",
		});
		expect(await fleet.sbx(["logs", "-n", "0", "w", id])).toMatchObject({ status: 0, stdout: "", stderr: "" });
	});

	test("bytes come unchanged, also to a slow reader, and one that leaves is no failure of the process", async () => {
		const id = await start("head -c 3000000 /dev/urandom | tee r; sha256sum r >&2");
		await fleet.sbx(["wait", "w", id]);
		const sums = await fleet.shell(`sbx logs w ${id} 2>sum | { sleep 1; sha256sum; }; cat sum; rm sum`, {});
		const [read, written] = sums.stdout.split("\n").map((line) => line.split(" ")[0]);
		expect(read).toBe(written);
		const left = await fleet.shell(`{ sbx logs w ${id} 2>/dev/null; echo "status $?" >&2; } | head -c 1 >/dev/null`);
		expect(left.stderr).toBe("status 141\n");
	});

	test("SIGTERM is heard while nobody reads the output", async () => {
		const id = await start("head -c 3000000 /dev/zero");
		await fleet.sbx(["wait", "w", id]);
		const { stderr } = await fleet.shell(
			`{ '${process.execPath}' '${SBX}' logs w ${id} & sleep 1; kill $!; wait $!; echo "status $?" >&2; } | { sleep 6; echo left >&2; }`,
		);
		expect(stderr).toBe("sbx: ended by SIGTERM\nstatus 143\nleft\n");
	});

	test("says how much is not kept any more, on stderr, unless --quiet", async () => {
		const id = await start("head -c 20000000 /dev/zero");
		await fleet.sbx(["wait", "w", id]);
		const { status, bytes, stderr } = await fleet.sbx(["logs", "w", id]);
		const lost = Number(/^sbx: [0-9a-f]{16}: (\d+) bytes of its stdout are not kept any more\n$/.exec(stderr)?.[1]);
		expect({ status, all: lost + bytes.length }).toEqual({ status: 0, all: 20_000_000 });
		expect((await fleet.sbx(["logs", "--quiet", "w", id])).stderr).toBe("");
		expect((await fleet.sbx(["logs", "--tail", "1", "w", id])).stderr).toBe("");
		const json = JSON.parse((await fleet.sbx(["logs", "--json", "w", id])).stdout);
		expect({ ...json, stdout: json.stdout.length }).toEqual({ stdout: bytes.length, stderr: "", truncated: true });
		await fleet.sbx(["kill", "--rm", "w", id]);
	});

	test("--json is one object, with characters whole", async () => {
		const id = await start("printf 'ü%.0s' $(seq 40000); echo no >&2");
		await fleet.sbx(["wait", "w", id]);
		const { stdout, stderr } = await fleet.sbx(["logs", "--json", "w", id]);
		expect(stderr).toBe("");
		expect(JSON.parse(stdout)).toEqual({ stdout: "ü".repeat(40_000), stderr: "no\n", truncated: false });
	});
});

describe("kill", () => {
	test("deals with each process though another is not there, and tells the worst", async () => {
		const id = await start("exec sleep 1000");
		const ended = await fleet.sbx(["kill", "w", "nosuch", id]);
		expect(ended).toMatchObject({ status: 1, stdout: `${id}: killed\n` });
		expect(ended.stderr).toMatch(/^sbx: no process nosuch in w\nhint: .*sbx ps w/);
		expect(await fleet.sbx(["kill", "w", id])).toMatchObject({ status: 0, stdout: `${id}: not running\n`, stderr: "" });
		const json = await fleet.sbx(["kill", "--json", "w", id, "nosuch"]);
		expect(json.status).toBe(1);
		expect(JSON.parse(json.stdout)).toMatchObject([
			{ name: id, killed: false },
			{ name: "nosuch", error: { code: "not_found" } },
		]);
	});

	test("-s only sends the signal", async () => {
		const id = await start("trap 'echo heard; exit 7' HUP; echo ready; while :; do sleep 0.1; done");
		await fleet.sbx(["logs", "-f", "w", id], onceItSpeaks("SIGINT"));
		expect(await fleet.sbx(["kill", "-s", "SIGHUP", "w", id])).toMatchObject({
			status: 0,
			stdout: `${id}: signalled\n`,
		});
		expect(await fleet.sbx(["wait", "w", id, "--timeout", "30s"])).toMatchObject({ status: 7 });
		expect((await fleet.sbx(["logs", "w", id])).stdout).toBe("ready\nheard\n");
		expect((await fleet.sbx(["kill", "-s", "NOSUCH", "w", id])).status).toBe(2);
	});

	test("--rm ends it and deletes what is kept of it", async () => {
		const id = await start("exec sleep 1000");
		expect(await fleet.sbx(["kill", "--rm", "--json", "w", id])).toMatchObject({
			status: 0,
			stdout: `[{"name":"${id}","removed":true}]\n`,
		});
		expect(await fleet.sbx(["logs", "w", id])).toMatchObject({ status: 1, stdout: "" });
		const again = await fleet.sbx(["kill", "--rm", "w", id]);
		expect(again).toMatchObject({ status: 1, stdout: "", stderr: `sbx: ${id}: there is no such process\n` });
	});
});

describe("wait", () => {
	test.each([0, 3, 124, 125])("ends with %i as the process did, without a word", async (status) => {
		const id = await start(`sleep 0.2; exit ${status}`);
		expect(await fleet.sbx(["wait", "w", id])).toMatchObject({ status, stdout: "", stderr: "" });
		const json = await fleet.sbx(["wait", "w", id, "--json"]);
		expect({ status: json.status, ...JSON.parse(json.stdout) }).toMatchObject({
			status,
			id,
			state: "exited",
			exitCode: status,
		});
	});

	test("is 124 when its time is over, and the process goes on", async () => {
		const id = await start("exec sleep 1000");
		const ended = await fleet.sbx(["wait", "--timeout", "300ms", "w", id]);
		expect(ended).toMatchObject({ status: 124, stdout: "" });
		expect(ended.stderr).toMatch(/^sbx: .*still runs after 300 ms\n$/);
		const json = await fleet.sbx(["wait", "--json", "--timeout", "300ms", "w", id]);
		expect(json).toMatchObject({ status: 124, stdout: "" });
		expect(JSON.parse(json.stderr)).toMatchObject({ error: { code: "timeout" } });
		expect(await listed(id)).toMatchObject({ state: "running" });
		await fleet.sbx(["kill", "--rm", "w", id]);
	});

	test("is 125 for a process that is lost, and for names that are not there", async () => {
		const { stdout } = await fleet.sbx(["exec", "-d", "stopping", "-c", "trap '' TERM; while :; do sleep 1; done"]);
		const id = stdout.trim();
		const { pid } = await listed(id, "stopping");
		// The keeper cannot tell of an end that took it too.
		await fleet.sbx([
			"exec",
			"stopping",
			"-c",
			`kill -9 $(ps -o ppid= -p ${pid} 2>/dev/null || awk '{print $4}' /proc/${pid}/stat)`,
		]);
		await fleet.sbx(["exec", "stopping", "-c", `kill -9 ${pid}`]);
		const lost = await fleet.sbx(["wait", "stopping", id]);
		expect(lost).toMatchObject({ status: 125, stdout: "" });
		expect(lost.stderr).toBe(`sbx: stopping: process ${id} is lost: nobody saw how it ended\n`);
		const json = await fleet.sbx(["wait", "--json", "stopping", id]);
		expect({ status: json.status, state: JSON.parse(json.stdout).state }).toEqual({ status: 125, state: "lost" });
		expect((await fleet.sbx(["ps", "stopping"])).stdout).toMatch(/ lost /);
		expect(await fleet.sbx(["wait", "w", "nosuch"])).toMatchObject({ status: 125, stdout: "" });
		expect(await fleet.sbx(["wait", "nosuch", id])).toMatchObject({ status: 125, stdout: "" });
	});

	test("a signal ends the waiting only", async () => {
		const id = await start("exec sleep 1000");
		const ended = await fleet.sbx(["wait", "w", id], {
			started: (child) => setTimeout(() => child.kill("SIGINT"), 1500),
		});
		expect(ended).toMatchObject({ status: 130, stderr: "sbx: ended by SIGINT\n" });
		expect(await listed(id)).toMatchObject({ state: "running" });
		await fleet.sbx(["kill", "--rm", "w", id]);
	});
});

test("names that are not there are status 1, and on a stopped sandbox what is kept can be read", async () => {
	for (const words of [
		["ps", "nosuch"],
		["logs", "w", "nosuch"],
		["logs", "nosuch", "x"],
		["kill", "nosuch", "x"],
	]) {
		expect(await fleet.sbx(words)).toMatchObject({ status: 1, stdout: "" });
	}
	const { stdout } = await fleet.sbx(["exec", "-d", "stopping", "-c", "echo kept; exec sleep 1000"]);
	const id = stdout.trim();
	await fleet.sbx(["logs", "-f", "stopping", id], onceItSpeaks("SIGINT"));
	await fleet.sbx(["stop", "stopping"]);
	expect(await fleet.sbx(["logs", "-f", "stopping", id])).toMatchObject({ status: 0, stdout: "kept\n" });
	expect((await listed(id, "stopping")).state).not.toBe("running");
});

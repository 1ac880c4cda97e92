import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LogsOptions, ProcessInfo, Sandbox } from "../../src/index.js";
import { isSandboxError, MiB } from "../../src/index.js";
import { startChild } from "../support/children.js";
import { importBusybox } from "../support/exec-images.js";
import { docker, makeFleet, TEST_IMAGE } from "../support/fleet.js";

const run = promisify(execFile);
const BUSYBOX = `sbxtest-processes-busybox:${randomBytes(4).toString("hex")}`;
const fleet = makeFleet();

afterAll(async () => {
	await fleet.dispose();
	await docker("image", "rm", "-f", BUSYBOX);
});

async function codeOf(promise: Promise<unknown>): Promise<unknown> {
	return promise.then(
		() => "no error",
		(error: unknown) => (isSandboxError(error) ? error.code : error),
	);
}

async function logsOf(
	box: Sandbox,
	id: string,
	options: LogsOptions = {},
): Promise<{ stdout: Buffer; stderr: Buffer; from: { stdout: number; stderr: number } }> {
	const parts: { stdout: Buffer[]; stderr: Buffer[] } = { stdout: [], stderr: [] };
	const from = { stdout: -1, stderr: -1 };
	for await (const { stream, chunk, atByte } of box.processes.logs(id, options)) {
		parts[stream].push(chunk);
		if (from[stream] < 0) from[stream] = atByte;
	}
	return { stdout: Buffer.concat(parts.stdout), stderr: Buffer.concat(parts.stderr), from };
}

const ended = (box: Sandbox, { id }: ProcessInfo): Promise<ProcessInfo> =>
	box.processes.wait(id, { timeoutMs: 60_000 });
const homeOf = (box: Sandbox): string => box.workspaceDir.replace(/\/workspaces\/(\w+)$/, "/homes/$1");
const ps = async (box: Sandbox): Promise<string> =>
	(
		await box.exec(
			'for d in /proc/[0-9]*; do [ "$d" = "/proc/$$" ] || { tr "\\0" " " <"$d/cmdline"; echo; }; done 2>/dev/null',
		)
	).stdout;

describe.each(["dash", "bash", "busybox"] as const)("in a sandbox whose sh is %s", (shell) => {
	let box: Sandbox;

	beforeAll(async () => {
		if (shell === "busybox") expect(await importBusybox(BUSYBOX, { shell: true })).toBeDefined();
		const image = shell === "busybox" ? BUSYBOX : TEST_IMAGE;
		box = await fleet.sandboxes.create(shell, { image, ...(shell === "bash" ? { user: "root" } : {}) });
		if (shell === "bash") expect((await box.exec("ln -sf bash /bin/sh")).exitCode).toBe(0);
	});

	test("a process goes on by itself, and its output and status are found again", async () => {
		const before = Date.now();
		const info = await box.processes.start("echo out; echo err >&2; sleep 0.5; echo more; exit 7", { name: "web" });
		expect(info).toMatchObject({ name: "web", state: "running", cwd: "/workspace" });
		expect(info.pid).toBeGreaterThan(1);
		expect(await box.processes.get("web")).toMatchObject({ id: info.id, state: "running", pid: info.pid });
		const end = await ended(box, info);
		expect(end).toMatchObject({ id: info.id, state: "exited", exitCode: 7 });
		expect(end.endedAt?.getTime()).toBeGreaterThan(before);
		const logs = await logsOf(box, info.id);
		expect([logs.stdout.toString(), logs.stderr.toString()]).toEqual(["out\nmore\n", "err\n"]);
		expect(await box.processes.kill("web")).toBe(false);
		expect((await box.processes.list()).map(({ id, state }) => [id, state])).toContainEqual([info.id, "exited"]);
		expect(await box.processes.remove("web")).toBe(true);
		expect(await box.processes.remove("web")).toBe(false);
		expect(await codeOf(box.processes.get("web"))).toBe("not_found");
	});

	test("every status, signal and failure to start is told", async () => {
		const statuses: [string | string[], number][] = [
			["exit 0", 0],
			["exit 255", 255],
			["kill -KILL $$", 137],
			["kill -INT $$", 130],
			[["no-such-program"], 127],
			[["/etc"], 126],
		];
		for (const [command, status] of statuses) {
			const info = await box.processes.start(command);
			expect([command, (await ended(box, info)).exitCode]).toEqual([command, status]);
			const { stderr } = await logsOf(box, info.id);
			expect([command, stderr.length > 0]).toEqual([command, Array.isArray(command)]);
		}
		expect(await codeOf(box.processes.start("true", { cwd: "nowhere" }))).toBe("bad_cwd");
	});

	test("bytes, arguments and variables arrive as they are", async () => {
		await box.exec(["sh", "-c", 'head -c 300000 /dev/urandom >"$1"', "sh", "r.bin"]);
		const expected = readFileSync(join(box.workspaceDir, "r.bin"));
		const copy = await ended(box, await box.processes.start("cat r.bin; cat r.bin >&2"));
		const logs = await logsOf(box, copy.id);
		expect(logs.stdout.equals(expected) && logs.stderr.equals(expected)).toBe(true);
		const argv = ["sh", "-c", 'printf "[%s]" "$@"; printf "<%s>" "$A" "$PWD"', "sh"];
		const odd = ["x'y", "a\nb", "$HOME", "", "\\", "é"];
		const info = await box.processes.start([...argv, ...odd], { env: { A: "1 '2'\n3", "a.b": "1" }, cwd: "/tmp" });
		await ended(box, info);
		expect((await logsOf(box, info.id)).stdout.toString()).toBe(
			`${odd.map((word) => `[${word}]`).join("")}<1 '2'\n3></tmp>`,
		);
	});

	test("the environment is that of a command", async () => {
		const info = await box.processes.start(["env"], { env: { "a.b": "1", IFS: "xyz" } });
		await ended(box, info);
		const names = (await logsOf(box, info.id)).stdout
			.toString()
			.trim()
			.split("\n")
			.map((line) => line.split("=")[0]);
		const asCommand = (await box.exec(["env"], { env: { "a.b": "1", IFS: "xyz" } })).stdout.trim().split("\n");
		expect(names.sort()).toEqual(asCommand.map((line) => line.split("=")[0]).sort());
	});

	test("a process starts clean: three descriptors, default signals, a group of its own, nobody's variables", async () => {
		const script = [
			"for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 63 255; do [ -e /proc/$$/fd/$i ] && echo fd$i; done",
			"grep -E '^Sig(Ign|Blk):' /proc/self/status",
			"cut -d' ' -f1,5,6 /proc/$$/stat",
			"umask",
			"env | grep -c '^__sbx'",
		];
		const info = await box.processes.start(script.join("\n"));
		await ended(box, info);
		const lines = (await logsOf(box, info.id)).stdout.toString().trim().split("\n");
		expect(lines.filter((line) => line.startsWith("fd"))).toEqual(["fd0", "fd1", "fd2"]);
		expect(lines.filter((line) => /^Sig...:.*[1-9a-f]/.test(line))).toEqual([]);
		const stat = lines.find((line) => /^\d+ \d+ \d+$/.test(line));
		expect(new Set(stat?.split(" ")).size).toBe(1);
		expect(lines.slice(-2)).toEqual(["0022", "0"]);
	});

	test("its newest output is kept within the cap, and the gap shows", async () => {
		const script = "i=0; while [ $i -lt 40000 ]; do echo line $i; i=$((i+1)); done";
		const whole = Array.from({ length: 40_000 }, (_, i) => `line ${i}\n`).join("");
		const info = await box.processes.start(script, { maxLogBytes: 64 * 1024 });
		await ended(box, info);
		const { stdout, from } = await logsOf(box, info.id);
		expect(stdout.length).toBeGreaterThan(16 * 1024);
		expect(stdout.length).toBeLessThanOrEqual(64 * 1024);
		expect(from.stdout).toBe(whole.length - stdout.length);
		expect(whole.endsWith(stdout.toString())).toBe(true);
		const kept = readdirSync(join(homeOf(box), ".sandboxes/processes", info.id)).filter((name) =>
			/^std.*\d$/.test(name),
		);
		expect(kept.length).toBeLessThanOrEqual(3);
		const tail = await logsOf(box, info.id, { tail: 3 });
		expect(tail.stdout.toString()).toBe("line 39997\nline 39998\nline 39999\n");
		expect((await logsOf(box, info.id, { tail: 1_000_000 })).stdout.equals(stdout)).toBe(true);
		expect((await logsOf(box, info.id, { tail: 0 })).stdout.length).toBe(0);
	});

	test("ten megabytes pass a follower byte for byte", async () => {
		const info = await box.processes.start("i=0; while [ $i -lt 10 ]; do head -c 1000000 /dev/zero; i=$((i+1)); done", {
			maxLogBytes: 32 * 1024 * 1024,
		});
		const { stdout, from } = await logsOf(box, info.id, { follow: true });
		expect([stdout.length, from.stdout]).toEqual([10_000_000, 0]);
	});

	test("a follower sees what comes as it comes, and the end", async () => {
		const info = await box.processes.start("echo one; read -r go <fifo; echo two", { cwd: "." });
		await box.exec("mkfifo fifo 2>/dev/null; :");
		const other = await box.processes.start("mkfifo fifo 2>/dev/null; echo one; read -r go <fifo; printf two");
		const seen: string[] = [];
		for await (const { chunk } of box.processes.logs(other.id, { follow: true })) {
			seen.push(chunk.toString());
			if (seen.length === 1) await box.exec("echo go >fifo");
		}
		expect(seen).toEqual(["one\n", "two"]);
		await box.processes.remove(info.id);
		const endless = await box.processes.start("while :; do echo x; sleep 0.1; done");
		const signal = AbortSignal.timeout(500);
		await expect(logsOf(box, endless.id, { follow: true, signal })).rejects.toMatchObject({ name: "TimeoutError" });
		expect(await codeOf(box.processes.wait(endless.id, { timeoutMs: 300 }))).toBe("timeout");
		expect((await box.processes.get(endless.id)).state).toBe("running");
		await box.processes.kill(endless.id);
	});

	test("a process is signalled, or ended with all it started, and its neighbours are not", async () => {
		const neighbour = await box.processes.start("exec sleep 81");
		const asked = await box.processes.start("trap 'echo caught; exit 5' INT; while :; do sleep 0.05; done");
		expect(await box.processes.kill(asked.id, "SIGINT")).toBe(true);
		expect((await ended(box, asked)).exitCode).toBe(5);
		const tree = await box.processes.start("trap '' TERM; setsid sleep 82 & sleep 82 & sleep 82");
		await expect.poll(async () => (await ps(box)).match(/sleep 82/g)?.length).toBeGreaterThanOrEqual(3);
		expect(await box.processes.kill(tree.id)).toBe(true);
		expect(await ps(box)).not.toContain("sleep 82");
		expect(await ended(box, tree)).toMatchObject({ state: "exited", exitCode: 137 });
		expect((await box.processes.get(neighbour.id)).state).toBe("running");
		expect(await box.processes.remove(neighbour.id)).toBe(true);
		expect(await ps(box)).not.toContain("sleep 81");
	});

	test("a child that holds the output delays the end by a second at most, and its words are kept", async () => {
		const info = await box.processes.start("(sleep 2; echo late) & echo early; exit 3");
		const end = await box.processes.wait(info.id, { timeoutMs: 1900 });
		expect(end.exitCode).toBe(3);
		await expect
			.poll(async () => (await logsOf(box, info.id)).stdout.toString(), { timeout: 5000 })
			.toBe("early\nlate\n");
	});

	test("a log that is emptied or deleted neither stops nor ends its process", async () => {
		const work =
			'head -c 300000 /dev/zero; sleep 0.3; head -c 300000 /dev/zero; sleep 0.3; echo done >"$1"; echo end; exit 8';
		const empties = ["sh", "-c", `: >~/.sandboxes/processes/$SANDBOXES_EXEC/stdout.0; ${work}`, "sh", "emptied"];
		const emptied = await box.processes.start(empties, { maxLogBytes: 64 * 1024 });
		expect((await ended(box, emptied)).exitCode).toBe(8);
		expect((await logsOf(box, emptied.id, { tail: 1 })).stdout.toString()).toMatch(/\0*end\n$/);
		const deletes = ["sh", "-c", `sleep 0.5; rm -r ~/.sandboxes/processes/$SANDBOXES_EXEC; ${work}`, "sh", "deleted"];
		const deleted = await box.processes.start(deletes, { maxLogBytes: 64 * 1024 });
		await expect
			.poll(async () => (await box.exec("cat emptied deleted")).stdout, { timeout: 10_000 })
			.toBe("done\ndone\n");
		expect(await codeOf(box.processes.get(deleted.id))).toBe("not_found");
	});

	test("many are started at once, and each has its own", async () => {
		const all = await Promise.all(
			Array.from({ length: 12 }, (_, n) => box.processes.start(`echo ${n}; echo e${n} >&2; exit ${n}`)),
		);
		const ends = await Promise.all(all.map((info) => ended(box, info)));
		expect(ends.map(({ exitCode }) => exitCode)).toEqual(all.map((_, n) => n));
		const logs = await Promise.all(all.map(({ id }) => logsOf(box, id)));
		expect(logs.map(({ stdout, stderr }) => `${stdout}${stderr}`)).toEqual(all.map((_, n) => `${n}\ne${n}\n`));
	});

	test("what keeps a process is not found by the command's own words", async () => {
		const info = await box.processes.start(["sh", "-c", "exec sleep 83", "unmistakable"]);
		expect((await ps(box)).match(/unmistakable/g)).toBeNull();
		expect((await ps(box)).match(/sleep 83/g)).toHaveLength(1);
		await box.processes.remove(info.id);
	});

	test("a killed keeper is told as lost, once the process is gone", async () => {
		const info = await box.processes.start('kill -KILL "$(cut -d" " -f4 /proc/$$/stat)"; sleep 0.5; exit 4');
		expect(await ended(box, info)).toMatchObject({ state: "lost" });
	});
});

describe("from another process", () => {
	test("a process that was started by one that was killed goes on, and is found, read, and ended", async () => {
		const box = await fleet.sandboxes.create("two", { image: TEST_IMAGE });
		const command = "echo from afar; trap 'echo told; exit 6' TERM; while :; do sleep 0.05; done";
		const child = startChild("background-in-process.ts", [fleet.root, fleet.prefix, "two", command]);
		await expect.poll(() => child.lines.length, { timeout: 30_000 }).toBe(1);
		const id = child.lines[0] ?? "";
		child.kill("SIGKILL");
		await child.ended();
		const again = await fleet.again().get("two");
		expect(await again.processes.list()).toMatchObject([{ id, name: "child", state: "running", command }]);
		const end = again.processes.wait("child");
		expect(await again.processes.kill("child", "TERM")).toBe(true);
		expect(await end).toMatchObject({ id, state: "exited", exitCode: 6 });
		expect((await logsOf(again, id)).stdout.toString()).toBe("from afar\ntold\n");
		expect(await box.processes.get(id)).toMatchObject({ state: "exited" });
	});

	test.runIf(process.getuid?.() === 0)(
		"a caller who is not root keeps and removes processes of a sandbox that is",
		async () => {
			const mine = makeFleet({ owner: 1000 });
			const group = statSync("/var/run/docker.sock").gid;
			const script = join(import.meta.dirname, "../support/processes-of-root.ts");
			const as = ["--reuid=1000", "--regid=1000", `--groups=${group}`, process.execPath, "--import", "tsx", script];
			const { stdout } = await run("setpriv", [...as, mine.root, mine.prefix], { env: { PATH: process.env["PATH"] } });
			await mine.dispose();
			expect(JSON.parse(stdout)).toEqual({ uid: 1000, exitCode: 3, output: "0\n", removed: true, left: [] });
		},
	);

	test("the container's stop ends a process, and its state says how", async () => {
		const box = await fleet.sandboxes.create("stopped", { image: TEST_IMAGE, stopGraceMs: 1000 });
		const polite = await box.processes.start("trap 'echo bye; exit 9' TERM; while :; do sleep 0.05; done");
		const deaf = await box.processes.start("trap '' TERM; while :; do sleep 0.05; done");
		const following = logsOf(box, polite.id, { follow: true });
		const waiting = box.processes.wait(deaf.id);
		await box.stop();
		expect((await following).stdout.toString()).toBe("bye\n");
		expect(await waiting).toMatchObject({ state: "lost" });
		expect(await box.processes.list()).toMatchObject([{ state: "exited", exitCode: 9 }, { state: "lost" }]);
		expect(await box.processes.kill(deaf.id)).toBe(false);
		expect(await codeOf(box.processes.start("true"))).toBe("stopped");
		const again = await fleet.sandboxes.create("stopped", { image: TEST_IMAGE, stopGraceMs: 1000 });
		expect((await again.processes.list()).map(({ state }) => state)).toEqual(["exited", "lost"]);
		const rebuilt = await fleet.sandboxes.create("stopped", { image: TEST_IMAGE, memory: MiB(700) });
		expect(rebuilt.outcome).toBe("rebuilt");
		expect((await logsOf(rebuilt, polite.id)).stdout.toString()).toBe("bye\n");
		const running = await rebuilt.processes.start("sleep 84");
		expect(await codeOf(box.processes.list())).toBe("gone");
		expect(await rebuilt.processes.remove(running.id)).toBe(true);
		await rebuilt.stop();
		expect(await rebuilt.processes.remove(polite.id)).toBe(true);
		expect(await rebuilt.processes.remove(deaf.id)).toBe(true);
		expect(await rebuilt.processes.list()).toEqual([]);
	});
});

describe("what code in the sandbox does to the directory", () => {
	test("leads no reader and no removal out of it", async () => {
		const box = await fleet.sandboxes.create("hostile", { image: TEST_IMAGE });
		const info = await box.processes.start("echo secret-free");
		await ended(box, info);
		const area = join(homeOf(box), ".sandboxes/processes");
		const outside = join(fleet.root, "outside");
		mkdirSync(join(outside, info.id), { recursive: true });
		writeFileSync(join(outside, info.id, "stdout.0"), "secret");
		writeFileSync(join(outside, info.id, "spec"), readFileSync(join(area, info.id, "spec")));
		const away = join(area, info.id, "away");
		renameSync(join(area, info.id, "stdout.0"), away);
		symlinkSync(join(outside, info.id, "stdout.0"), join(area, info.id, "stdout.0"));
		expect((await logsOf(box, info.id)).stdout.length).toBe(0);
		await box.exec(`cd ~/.sandboxes/processes/${info.id} && rm stdout.0 && mkfifo stdout.0 && rm exit && mkfifo exit`);
		expect((await logsOf(box, info.id)).stdout.length).toBe(0);
		expect((await box.processes.list()).map(({ state }) => state)).toEqual(["lost"]);
		for (const spec of ["", "{", "[]", '{"command":7}', "x".repeat(100_000)]) {
			writeFileSync(join(area, info.id, "spec"), spec);
			expect(await box.processes.list()).toEqual([]);
		}
		renameSync(area, `${area}-before`);
		symlinkSync(outside, area);
		expect(await codeOf(box.processes.list())).toBe("workspace_unusable");
		expect(await codeOf(box.processes.remove(info.id))).toBe("workspace_unusable");
		expect(readdirSync(join(outside, info.id))).toHaveLength(2);
	});
});

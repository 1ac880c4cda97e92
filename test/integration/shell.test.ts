import { randomBytes } from "node:crypto";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { Shell } from "../../src/exec/shell.js";
import { normaliseShell, type ShellOptions } from "../../src/exec/shell-request.js";
import { isSandboxError } from "../../src/primitives/errors.js";
import { type Box, Boxes } from "../support/exec-boxes.js";
import { importBusybox } from "../support/exec-images.js";

const DEBIAN = "debian:bookworm-slim";
const BUSYBOX = `sbxtest-shell-busybox:${randomBytes(4).toString("hex")}`;
const boxes = new Boxes();

afterAll(async () => {
	await boxes.removeAll();
	await boxes.engine.removeImage(BUSYBOX);
});

async function codeOf(promise: Promise<unknown>): Promise<unknown> {
	return promise.then(
		() => "no error",
		(error: unknown) => (isSandboxError(error) ? error.code : error),
	);
}

describe.each(["dash", "bash", "bash as sh", "busybox"] as const)("a shell that is %s", (kind) => {
	let box: Box;
	let shell: Shell;

	beforeAll(async () => {
		if (kind === "busybox") expect(await importBusybox(BUSYBOX, { shell: true })).toBeDefined();
		const asSh = kind === "bash as sh";
		box = await boxes.make({ image: kind === "busybox" ? BUSYBOX : DEBIAN, ...(asSh ? { user: "root" } : {}) });
		if (asSh) expect((await box.exec("ln -sf bash /bin/sh")).exitCode).toBe(0);
		shell = open();
	});
	afterEach(async () => {
		if (shell.isOpen) return;
		await shell.close();
		shell = open();
	});

	function open(options: ShellOptions = {}): Shell {
		const request = normaliseShell({ ...(kind === "bash" ? { shell: "bash" } : {}), ...options });
		return new Shell(request, {
			name: box.target.name,
			launch: async (asked) => boxes.commands.start(box.target, asked),
			run: async (beside) => boxes.commands.run(box.target, beside),
		});
	}

	test("is the one meant", async () => {
		expect((await shell.run("readlink -f /proc/$$/exe")).stdout.trim().split("/").pop()).toBe(kind.split(" ")[0]);
	});

	test("keeps directory, variables, functions, options, umask, status and jobs", async () => {
		await using kept = open({ cwd: "/tmp", env: { GIVEN: "it's" } });
		expect((await kept.run('pwd; echo "$GIVEN"')).stdout).toBe("/tmp\nit's\n");
		const first = await kept.run(
			'cd /; a="x  y"; export B=2; f() { echo "f $1 $a"; }; umask 077; set -f; sleep 30 & j=$!; (exit 9)',
		);
		expect(first).toMatchObject({ exitCode: 9, stdout: "", stderr: "", shellEnded: false, timedOut: false });
		const { stdout } = await kept.run(
			'echo $?; pwd; f 1; sh -c "echo \\$B"; umask; echo *; kill $j && wait $j; echo $?',
		);
		expect(stdout).toBe("9\n/\nf 1 x  y\n2\n0077\n*\n143\n");
		if (kind !== "bash") return;
		await kept.run("declare -A m=([k]=v); shopt -s extglob; arr=(1 2 3)");
		expect((await kept.run(`echo "\${m[k]} \${#arr[@]}"; shopt -q extglob && echo on`)).stdout).toBe("v 3\non\n");
	});

	test("gives each command a result of its own", async () => {
		expect(await shell.run("echo out; echo err >&2; false")).toMatchObject({
			stdout: "out\n",
			stderr: "err\n",
			exitCode: 1,
		});
		expect(await shell.run("true")).toMatchObject({ stdout: "", stderr: "", exitCode: 0 });
		expect((await shell.run("sh -c 'kill -9 $$'")).exitCode).toBe(137);
		const odd = ["printf", "[%s]", "a b", "x'y", "p\nq", "", "\\n", "$HOME", "é😀", "*"];
		expect((await shell.run(odd)).stdout).toBe("[a b][x'y][p\nq][][\\n][$HOME][é😀][*]");
		expect((await shell.run("cat <<'E'\nit's\t$HOME\\\n\nE\necho \\\n  two")).stdout).toBe("it's\t$HOME\\\n\ntwo\n");
		const all = await Promise.all([1, 2, 3].map(async (n) => (await shell.run(`echo ${n}; sleep 0.05`)).stdout));
		expect(all).toEqual(["1\n", "2\n", "3\n"]);
		const long = `: ${"x".repeat(100_000)}\necho long`;
		expect((await shell.run(long)).stdout).toBe("long\n");
		expect((await shell.run("cat")).stdout).toBe("");
	});

	test("passes large and binary output through, and bounds what it keeps", async () => {
		const got: Buffer[] = [];
		const end = await shell.run("head -c 3000000 /dev/urandom | tee r | cat; md5sum <r >&2", {
			maxOutputBytes: 1000,
			onStdout: async (chunk) => {
				got.push(chunk);
			},
		});
		expect(end.outputBytes.stdout).toBe(3_000_000);
		expect(end.truncated).toBe(true);
		const check = await box.exec("md5sum", { stdin: Buffer.concat(got) });
		expect(check.stdout.split(" ")[0]).toEqual(end.stderr.split(" ")[0]);
	});

	test("survives mistakes, a stray break, and redirections of its own streams", async () => {
		await shell.run("kept=1");
		for (const text of [
			"if",
			"echo 'open",
			"break",
			"continue",
			"exec 1>&-",
			"exec >/dev/null 2>&1 </dev/null",
			". /no/such",
		]) {
			const end = await shell.run(text);
			expect([text, end.shellEnded]).toEqual([text, false]);
		}
		expect((await shell.run("nosuchcommand")).exitCode).toBe(127);
		expect((await shell.run("echo $kept")).stdout).toBe("1\n");
	});

	test("has only three descriptors for its commands", async () => {
		const { stdout } = await shell.run([
			"sh",
			"-c",
			"for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 63 255; do [ -e /proc/$$/fd/$i ] && echo $i; done; :",
		]);
		expect(stdout).toBe("0\n1\n2\n");
	});

	test("leaves a command at its time limit, with all it started and nothing else, and goes on where it was", async () => {
		await shell.run("cd /tmp; v=before; f() { echo f; }; sleep 91 & echo started");
		for (const text of [
			"v=during; sleep 92; v=after; touch /workspace/ran",
			"(sleep 92; touch /workspace/ran); touch /workspace/ran",
			"x=$(sleep 92); touch /workspace/ran",
			"sleep 92 | cat; touch /workspace/ran",
			"{ sleep 92; } >/dev/null 2>&1; touch /workspace/ran",
			"while :; do :; done",
			"while :; do sleep 0.01; done",
			"g() { sleep 92; touch /workspace/ran; }; g; touch /workspace/ran",
			"setsid sleep 92 & sleep 92; touch /workspace/ran",
		]) {
			const end = await shell.run(`echo so far; ${text}`, { timeoutMs: 250, killGraceMs: 500 });
			expect([text, end]).toMatchObject([
				text,
				{ timedOut: true, shellEnded: false, exitCode: 143, stdout: "so far\n" },
			]);
		}
		expect((await shell.run("pwd; echo $v; f; ls /workspace/ran 2>/dev/null; :")).stdout).toBe("/tmp\nduring\nf\n");
		const processes = await box.processes();
		expect(processes).not.toContain("sleep 92");
		expect(processes).toContain("sleep 91");
		expect(await shell.run("kill %1 2>/dev/null || kill $!; echo ok")).toMatchObject({ stdout: "ok\n" });
	});

	test("leaves a command that is aborted or whose listener fails, and rejects with their reason", async () => {
		const reason = new Error("enough");
		const controller = new AbortController();
		const running = shell.run("echo up; sleep 93", {
			signal: controller.signal,
			onStdout: () => controller.abort(reason),
		});
		await expect(running).rejects.toBe(reason);
		await expect(shell.run("true", { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
		const failing = shell.run("echo up; sleep 93", {
			onStdout: () => {
				throw reason;
			},
		});
		await expect(failing).rejects.toBe(reason);
		expect((await shell.run("echo still")).stdout).toBe("still\n");
		expect(await box.processes()).not.toContain("sleep 93");
	});

	test("that cannot leave a command is ended, and says so", async () => {
		const end = await shell.run("trap '' URG; while :; do :; done", { timeoutMs: 200, killGraceMs: 0 });
		expect(end).toMatchObject({ timedOut: true, shellEnded: true, exitCode: 137 });
		expect(await codeOf(shell.run("true"))).toBe("shell_ended");
	});

	test("ends by exit, with the status and all the output", async () => {
		const end = await shell.run("printf last; exit 5");
		expect(end).toMatchObject({ stdout: "last", exitCode: 5, shellEnded: true, timedOut: false });
		expect(shell.isOpen).toBe(false);
		expect(await codeOf(shell.run("true"))).toBe("shell_ended");
		const replaced = open();
		expect(await replaced.run(["exec", "sh", "-c", "exit 6"])).toMatchObject({ exitCode: 6, shellEnded: true });
		const killed = open();
		expect(await killed.run("kill -9 $$")).toMatchObject({ exitCode: 137, shellEnded: true });
		const strict = open();
		await strict.run("set -e");
		expect(await strict.run("false; echo no")).toMatchObject({ exitCode: 1, stdout: "", shellEnded: true });
	});

	test("is closed: an idle one at once, a busy one with what it runs", async () => {
		const idle = open();
		await idle.run("sleep 94 &");
		const from = performance.now();
		await idle.close();
		await idle.close();
		expect(performance.now() - from).toBeLessThan(1500);
		expect(await codeOf(idle.run("true"))).toBe("shell_ended");
		expect(await box.processes()).toContain("sleep 94");
		await box.exec("pkill -f 'sleep 94' || kill $(grep -l '^sleep.94' /proc/[0-9]*/cmdline | cut -d/ -f3)");
		const busy = open();
		const running = busy.run("sleep 95").catch((error: unknown) => error);
		await busy.pid;
		await busy.close();
		await running;
		expect(await box.processes()).not.toContain("sleep 95");
		const never = open();
		await never.close();
	});

	test("that cannot be started says why", async () => {
		await using nowhere = open({ cwd: "/no/where" });
		expect(await codeOf(nowhere.run("true"))).toBe("bad_cwd");
		expect(await codeOf(nowhere.run("true"))).toBe("bad_cwd");
	});
});

test("the container's end is told, with the output so far", async () => {
	const box = await boxes.make({ image: DEBIAN });
	const shell = new Shell(normaliseShell(), {
		name: box.target.name,
		launch: async (asked) => boxes.commands.start(box.target, asked),
		run: async (beside) => boxes.commands.run(box.target, beside),
	});
	const failure = await shell
		.run("echo before; sleep 96", { onStdout: () => void boxes.engine.removeContainer(box.target.id) })
		.catch((error: unknown) => error);
	expect(failure).toMatchObject({ details: { stdout: "before\n" } });
	expect(isSandboxError(failure, "gone") || isSandboxError(failure, "stopped")).toBe(true);
	await shell.close();
});

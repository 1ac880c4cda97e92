import { randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Engine, ExecSpec } from "../../src/engine/engine.js";
import { Commands, type CommandsOptions } from "../../src/exec/commands.js";
import type { ExecResult } from "../../src/exec/request.js";
import { isSandboxError } from "../../src/primitives/errors.js";
import { startChild } from "../support/children.js";
import { type Box, Boxes } from "../support/exec-boxes.js";
import { importBusybox } from "../support/exec-images.js";

const DEBIAN = "debian:bookworm-slim";
const BUSYBOX = `sbxtest-session-busybox:${randomBytes(4).toString("hex")}`;
const boxes = new Boxes();
/** Prints the pids of all sessions' shells that wait for a line. */
const SESSIONS = `for d in /proc/[0-9]*; do case $(tr "\\0" " " <$d/cmdline) in *"sbx-sess"ion*) echo \${d#/proc/};; esac; done 2>/dev/null`;

/** The engine, with a count of the execs that were started on it. */
function counting(engine: Engine): { readonly engine: Engine; readonly execs: ExecSpec[] } {
	const execs: ExecSpec[] = [];
	const engine_ = new Proxy(engine, {
		get(target, name) {
			const value = Reflect.get(target, name) as unknown;
			if (typeof value !== "function") return value;
			return (...args: unknown[]) => {
				if (name === "exec") execs.push(args[1] as ExecSpec);
				return Reflect.apply(value, target, args) as unknown;
			};
		},
	});
	return { engine: engine_, execs };
}

/** Commands on a path of their own, and how many execs they cost. */
function fresh(options: CommandsOptions = {}) {
	const { engine, execs } = counting(boxes.engine);
	const commands = new Commands(engine, options);
	const run = (box: Box, command: unknown, more: object = {}, target: object = {}): Promise<ExecResult> =>
		commands.run({ ...box.target, ...target }, commands.normalise(command, more)) as Promise<ExecResult>;
	return { run, execs, close: () => commands.close() };
}

async function until(what: () => Promise<boolean>): Promise<void> {
	for (let i = 0; i < 100; i++) {
		if (await what()) return;
		await pause(50);
	}
	expect.unreachable("it did not come about");
}

async function waitingShells(box: Box): Promise<number> {
	const result = await onEngine(box, SESSIONS);
	return result.stdout.split("\n").filter(Boolean).length;
}

const engineCommands = new Commands(boxes.engine, { path: "engine" });
function onEngine(box: Box, command: unknown): Promise<ExecResult> {
	return engineCommands.run(box.target, engineCommands.normalise(command)) as Promise<ExecResult>;
}

afterAll(async () => {
	await boxes.removeAll();
	await boxes.engine.removeImage(BUSYBOX);
});

describe.each(["dash", "bash", "busybox"] as const)("sessions in a sandbox whose sh is %s", (shell) => {
	let box: Box;
	beforeAll(async () => {
		if (shell === "busybox") expect(await importBusybox(BUSYBOX, { shell: true })).toBeDefined();
		const user = shell === "bash" ? "root" : "1000:1000";
		box = await boxes.make({ image: shell === "busybox" ? BUSYBOX : DEBIAN, user });
		if (shell === "bash") await onEngine(box, "ln -sf bash /bin/sh");
	});

	test("one exec serves many commands, with and without input", async () => {
		const { run, execs, close } = fresh();
		for (let i = 0; i < 20; i++) {
			expect(await run(box, ["echo", `${i}`])).toMatchObject({ stdout: `${i}\n`, exitCode: 0 });
			expect(await run(box, "cat", { stdin: `${i}\0\n\\` })).toMatchObject({ stdout: `${i}\0\n\\`, exitCode: 0 });
		}
		expect(execs).toHaveLength(1);
		close();
	});

	test("what a session is not for goes by the engine: long lines, much input, streams, terminals, other users", async () => {
		const { run, execs, close } = fresh();
		await run(box, "true");
		const long = "x".repeat(20_000);
		expect((await run(box, ["printf", "%s", long])).stdout).toBe(long);
		expect((await run(box, "cat", { stdin: long })).stdout).toBe(long);
		const stream = (async function* () {
			yield "abc";
		})();
		expect((await run(box, "cat", { stdin: stream })).stdout).toBe("abc");
		expect((await run(box, "tty", { terminal: { columns: 80, rows: 24 } })).exitCode).toBe(0);
		expect((await run(box, "id -u", { user: "4321" })).stdout).toBe("4321\n");
		expect(execs).toHaveLength(6);
		close();
	});

	test("a shell that was killed while it waited costs the next command nothing but time", async () => {
		const { run, close } = fresh();
		await run(box, "true");
		await onEngine(box, `kill -9 $(${SESSIONS})`);
		expect(await run(box, "echo again")).toMatchObject({ stdout: "again\n", exitCode: 0 });
		await run(box, "true");
		await onEngine(box, `kill -TERM $(${SESSIONS})`);
		await pause(100);
		expect(await run(box, "echo again")).toMatchObject({ stdout: "again\n", exitCode: 0 });
		close();
	});

	test("a command that kills the shell above it is ended, told as lost, and the next one runs", async () => {
		const { run, close } = fresh();
		await run(box, "true");
		const error = await run(box, `echo up; kill -9 $(${SESSIONS}); sleep 1201`).catch((thrown: unknown) => thrown);
		expect(isSandboxError(error, "exec_lost") && error.details.stdout).toBe("up\n");
		expect(await run(box, "echo next")).toMatchObject({ stdout: "next\n", exitCode: 0 });
		expect((await onEngine(box, "for d in /proc/[0-9]*; do tr '\\0' ' ' <$d/cmdline; echo; done")).stdout).not.toMatch(
			/^sleep 1201/m,
		);
		close();
	});

	test("a shell that is held up runs nothing later, and the command runs once", async () => {
		const { run, close } = fresh();
		await run(box, "rm -f twice");
		await onEngine(box, `kill -STOP $(${SESSIONS})`);
		expect(await run(box, "echo x >> twice; echo ran")).toMatchObject({ stdout: "ran\n", exitCode: 0 });
		await onEngine(box, `kill -CONT $(${SESSIONS}); sleep 0.3`);
		expect((await run(box, "cat twice")).stdout).toBe("x\n");
		await until(async () => (await waitingShells(box)) <= 1);
		close();
	});

	test("noise that a command leaves behind is in no later result", async () => {
		const { run, close } = fresh();
		const noise = "(while [ ! -e quiet ]; do echo noise; echo noise >&2; done) &";
		await run(box, `rm -f quiet; ${noise} exec 5>&1; (sleep 1; echo late >&5) >/dev/null 2>&1 & :`);
		for (let i = 0; i < 20; i++) {
			expect(await run(box, `echo ${i}`)).toMatchObject({ stdout: `${i}\n`, stderr: "", exitCode: 0 });
		}
		await run(box, "touch quiet");
		close();
		await until(async () => (await waitingShells(box)) === 0);
	});

	test("guessed words of the protocol are output like any other", async () => {
		const { run, execs, close } = fresh();
		const guess = randomBytes(16).toString("hex");
		const words = `${guess} P1\n${guess} 0\n${guess} E\n${guess} C 1\n`;
		for (let i = 0; i < 3; i++) {
			const result = await run(box, `printf '%s' '${words}'; printf '%s' '${words}' >&2; exit 9`);
			expect(result).toMatchObject({ stdout: words, stderr: words, exitCode: 9 });
		}
		expect(execs).toHaveLength(1);
		close();
	});

	test("a command has none of the shell's own descriptors, and what it writes past it spoils no later result", async () => {
		const { run, close } = fresh();
		const direct = await run(box, "for i in 7 8 9; do (echo x >&$i) 2>/dev/null && echo open $i; done; :");
		expect(direct.stdout).toBe("");
		const around = `for p in $(${SESSIONS}); do for i in 7 8 9; do echo forged >/proc/$p/fd/$i; done; done 2>/dev/null; :`;
		await run(box, around).catch(() => {});
		for (let i = 0; i < 3; i++) {
			expect(await run(box, "echo true; exit 4")).toMatchObject({ stdout: "true\n", stderr: "", exitCode: 4 });
		}
		close();
	});

	test("a paused sandbox is told as such, and nothing of the command runs later", async () => {
		const { run, close } = fresh();
		await run(box, "rm -f late");
		await boxes.engine.pauseContainer(box.target.id);
		const error = await run(box, "touch late").catch((thrown: unknown) => thrown);
		expect(isSandboxError(error, "stopped") && error.details.state).toBe("paused");
		await boxes.engine.unpauseContainer(box.target.id);
		await pause(300);
		expect((await run(box, "ls late")).exitCode).not.toBe(0);
		close();
	});

	test("stop and start under it: the next command says so, and then runs again", async () => {
		const { run, close } = fresh();
		await run(box, "true");
		const from = performance.now();
		await boxes.engine.stopContainer(box.target.id, 10_000);
		expect(performance.now() - from).toBeLessThan(3000);
		const error = await run(box, "true").catch((thrown: unknown) => thrown);
		expect(isSandboxError(error, "stopped")).toBe(true);
		await boxes.engine.startContainer(box.target.id);
		expect((await run(box, "echo back")).stdout).toBe("back\n");
		close();
	});
});

describe("sessions", () => {
	let box: Box;
	beforeAll(async () => {
		box = await boxes.make({ image: DEBIAN });
	});

	test("serve as many commands at once as there may be shells, and the engine serves the others", async () => {
		const { run, execs, close } = fresh();
		const all = await Promise.all(Array.from({ length: 6 }, (_, i) => run(box, `sleep 0.5; echo ${i}`)));
		expect(all.map((result) => result.stdout)).toEqual(["0\n", "1\n", "2\n", "3\n", "4\n", "5\n"]);
		expect(execs).toHaveLength(6);
		expect(await waitingShells(box)).toBe(4);
		await Promise.all(Array.from({ length: 40 }, (_, i) => run(box, ["echo", `${i}`])));
		expect(execs.length).toBeLessThan(20);
		close();
		await until(async () => (await waitingShells(box)) === 0);
	});

	test("are few where few processes are allowed", async () => {
		const { run, execs, close } = fresh();
		for (let i = 0; i < 3; i++) await run(box, "true", {}, { pids: 16 });
		expect(execs).toHaveLength(3);
		expect(await waitingShells(box)).toBe(0);
		await Promise.all(Array.from({ length: 3 }, () => run(box, "sleep 0.3", {}, { pids: 48 })));
		expect(await waitingShells(box)).toBe(2);
		close();
		await until(async () => (await waitingShells(box)) === 0);
	});

	test("are closed when nothing was asked of them for a while", async () => {
		const { run } = fresh({ sessionIdleMs: 200 });
		await run(box, "true");
		await until(async () => (await waitingShells(box)) === 0);
		expect((await run(box, "echo on")).stdout).toBe("on\n");
	});

	test("do not keep a process alive that has finished, and go with it", async () => {
		const child = startChild("session-worker.ts", [box.target.id, box.target.name]);
		expect(await child.ended()).toBe(0);
		expect(child.lines).toEqual(["command 0", "command 1", "command 2", "done"]);
		await until(async () => (await waitingShells(box)) === 0);
	});

	test("go with a process that was killed", async () => {
		const child = startChild("session-worker.ts", [box.target.id, box.target.name, "stay"]);
		await child.printed("done");
		expect(await waitingShells(box)).toBe(1);
		child.kill("SIGKILL");
		await child.ended();
		await until(async () => (await waitingShells(box)) === 0);
	});

	test("leave nothing behind after 1,000 commands", async () => {
		const { run, execs, close } = fresh();
		const soon = async (count: number): Promise<void> => {
			for (let i = 0; i < count; i += 4) {
				await Promise.all([
					run(box, ["true"]),
					run(box, ["echo", "x"], { timeoutMs: 60_000, signal: new AbortController().signal }),
					run(box, "cat", { stdin: "in" }),
					run(box, "exit 3"),
				]);
			}
		};
		await soon(40);
		const state = (): object => ({
			fds: readdirSync("/proc/self/fd").length,
			active: process.getActiveResourcesInfo().filter((kind) => kind !== "Immediate").length,
			listeners: process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0),
		});
		const inside = async (): Promise<number> =>
			Number((await onEngine(box, "set -- /proc/[0-9]*; echo $#")).stdout.trim());
		const before = [state(), await inside()];
		await soon(1000);
		await pause(50);
		expect([state(), await inside()]).toEqual(before);
		expect(execs.length).toBeLessThan(10);
		close();
		await until(async () => (await waitingShells(box)) === 0);
	});

	test("need no room in /tmp", async () => {
		const full = await boxes.make({ image: DEBIAN, tmpfs: { "/tmp": "rw,size=64k" } });
		const { run, execs, close } = fresh();
		await run(full, "cat /dev/zero > /tmp/fill");
		expect((await run(full, "cat", { stdin: "in" })).stdout).toBe("in");
		expect(execs).toHaveLength(1);
		close();
	});

	test("come back after a sandbox was full of processes", async () => {
		const small = await boxes.make({ image: DEBIAN, pids: 64 });
		const { run, execs, close } = fresh();
		await run(small, "true", {}, { pids: 64 });
		await run(small, "i=0; while [ $i -lt 80 ]; do sleep 3 & i=$((i+1)); done", {}, { pids: 64 });
		expect((await run(small, "echo usable", {}, { pids: 64 })).stdout).toBe("usable\n");
		await until(async () => (await run(small, "true", {}, { pids: 64 })).exitCode === 0);
		await pause(3500);
		await run(small, "true", {}, { pids: 64 });
		const before = execs.length;
		await run(small, "true", {}, { pids: 64 });
		expect(execs.length).toBe(before);
		close();
	});
});

/** What a command must be to whoever runs it, on whatever path it reaches the sandbox. */
import { createHash, randomBytes } from "node:crypto";
import { getEventListeners } from "node:events";
import { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ExecPath } from "../../src/exec/commands.js";
import { PREPARE, RUN_ONE } from "../../src/exec/runner.js";
import { END_TREE } from "../../src/exec/tree-script.js";
import { isSandboxError, type SandboxError } from "../../src/primitives/errors.js";
import { type Box, Boxes } from "./exec-boxes.js";
import { importBusybox } from "./exec-images.js";

const DEBIAN = "debian:bookworm-slim";
async function errorOf(promise: Promise<unknown>): Promise<unknown> {
	return promise.then(
		() => expect.unreachable("it should have rejected"),
		(error: unknown) => error,
	);
}

async function codeOf(promise: Promise<unknown>): Promise<SandboxError["code"] | unknown> {
	const error = await errorOf(promise);
	return isSandboxError(error) ? error.code : error;
}

async function elapsed<T>(work: () => Promise<T>): Promise<[T, number]> {
	const from = performance.now();
	return [await work(), performance.now() - from];
}

async function until(what: () => Promise<boolean>): Promise<void> {
	for (let i = 0; i < 100; i++) if (await what()) return;
	expect.unreachable("it did not come about");
}

/** Holds more in memory than there is: a line without an end. */
const EAT = "tail /dev/zero";

export function execSuite(path: ExecPath): void {
	const BUSYBOX = `sbxtest-exec-busybox:${randomBytes(4).toString("hex")}`;
	const NO_SHELL = `sbxtest-exec-noshell:${randomBytes(4).toString("hex")}`;
	const boxes = new Boxes(path);

	afterAll(async () => {
		await boxes.removeAll();
		for (const image of [BUSYBOX, NO_SHELL]) await boxes.engine.removeImage(image);
	});

	describe.each(["dash", "bash", "busybox"] as const)("in a sandbox whose sh is %s", (shell) => {
		let box: Box;

		beforeAll(async () => {
			if (shell === "busybox") {
				const image = await importBusybox(BUSYBOX, { shell: true });
				expect(image, "the package busybox-static").toBeDefined();
				box = await boxes.make({ image: BUSYBOX, user: "1000:1000" });
				return;
			}
			box = await boxes.make({ image: DEBIAN, user: shell === "bash" ? "root" : "1000:1000" });
			if (shell === "bash") expect((await box.exec("ln -sf bash /bin/sh")).exitCode).toBe(0);
		});

		test("the shell is the one meant", async () => {
			const { stdout } = await box.exec("readlink -f /proc/$$/exe; :");
			expect(stdout.trim().split("/").pop()).toBe(shell);
		});

		test("a command ended by a signal has 128 + its number (T01)", async () => {
			const kill = await box.exec("kill -9 $$");
			expect(kill.exitCode).toBe(137);
			expect([undefined, "SIGKILL"]).toContain(kill.signal);
			const term = await box.exec("kill -TERM $$");
			expect(term.exitCode).toBe(143);
			expect([undefined, "SIGTERM"]).toContain(term.signal);
			const segv = await box.exec(["sh", "-c", "kill -SEGV $$"]);
			expect(segv.exitCode).toBe(139);
			expect([undefined, "SIGSEGV"]).toContain(segv.signal);
			expect(segv.stderr).toBe("");
			expect((await box.exec("exit 137")).signal).toBeUndefined();
		});

		test("every status from 0 to 255 comes as it is", async () => {
			for (const status of [0, 1, 2, 3, 124, 125, 126, 127, 128, 254, 255]) {
				expect(await box.exec(`echo out; exit ${status}`)).toMatchObject({
					exitCode: status,
					stdout: "out\n",
					stderr: "",
				});
			}
		});

		test("what cannot be started is 127 or 126, with the reason on stderr (T09)", async () => {
			await box.exec("echo hello > plain; printf '#!/no/such\\n' > lost; chmod +x lost");
			for (const [command, status] of [
				[["nosuchcmd"], 127],
				["nosuchcmd", 127],
				[["./lost"], 127],
				[["/etc"], 126],
				[["./plain"], 126],
			] as const) {
				const result = await box.exec(command);
				expect([command, result.exitCode, result.stdout]).toEqual([command, status, ""]);
				expect(result.stderr).not.toBe("");
			}
			expect((await box.exec("true")).exitCode).toBe(0);
		});

		test("variables arrive byte for byte and for one command only (T07)", async () => {
			const print = ["sh", "-c", `printf "%s\\0" "$A" "$B" "$C" "$D" "\${E-unset}" "$F" "$U"`];
			const env = {
				A: "hello world",
				B: "x=y=z",
				C: "line1\nline2",
				D: "$HOME `id` \"q\" 's'",
				E: "",
				F: "1",
				U: "ünï",
			};
			const { stdout } = await box.exec(print, { env });
			expect(stdout).toBe(`${Object.values(env).join("\0")}\0`);
			expect((await box.exec(print)).stdout).toBe("\0\0\0\0unset\0\0\0");
		});

		test("a command's environment is that of a process of its own", async () => {
			const env = { "a.b": "1", IFS: "xyz", LC_ALL: "no_SUCH", PWD: "given", "-z": "dash" };
			const { stdout, stderr } = await box.exec(["env"], { env });
			const lines = stdout.trim().split("\n").sort();
			const names = lines.map((line) => line.split("=")[0]);
			expect(lines).toEqual(expect.arrayContaining(["a.b=1", "IFS=xyz", "LC_ALL=no_SUCH", "PWD=given", "-z=dash"]));
			const inherited = ["HOME", "HOSTNAME", "PATH", "SANDBOXES_EXEC"];
			expect(
				names.filter((name) => name && !(name in env) && !inherited.includes(name) && !/CA_CERTS|_proxy$/i.test(name)),
			).toEqual([]);
			expect(stderr).toBe("");
		});

		test("arguments arrive unchanged, and a string goes through a shell (T08)", async () => {
			const argv = [
				"sh",
				"-c",
				'for a; do printf "[%s]" "$a"; done',
				"--",
				"a b",
				"$HOME",
				"x'y",
				"",
				"*",
				"a\nb",
				"-n",
				"\\",
			];
			expect((await box.exec(argv)).stdout).toBe("[a b][$HOME][x'y][][*][a\nb][-n][\\]");
			expect((await box.exec("echo abc | tr a-z A-Z")).stdout).toBe("ABC\n");
			const every = Buffer.from(Array.from({ length: 127 }, (_, i) => i + 1)).toString("latin1");
			expect((await box.exec(["printf", "%s", `${every}é😀`])).stdout).toBe(`${every}é😀`);
			const many = Array.from({ length: 20_000 }, (_, i) => `argument number ${i}`);
			const sum = await box.exec(["sh", "-c", `echo "$#"; eval "echo \\"\\\${$#}\\""`, "sh", ...many]);
			expect(sum.stdout).toBe("20000\nargument number 19999\n");
		});

		test("stdin ends (T06)", async () => {
			expect(await box.exec("cat", { stdin: "a\nb" })).toMatchObject({ stdout: "a\nb", exitCode: 0 });
			expect(await box.exec("cat")).toMatchObject({ stdout: "", exitCode: 0 });
			expect(await box.exec("cat", { stdin: "" })).toMatchObject({ stdout: "", exitCode: 0 });
			const data = randomBytes(3_000_000);
			expect((await box.bytes("cat", { stdin: data })).stdout.equals(data)).toBe(true);
			expect((await box.exec("wc -c", { stdin: Readable.from(["ab", Buffer.from("cd")]) })).stdout.trim()).toBe("4");
			const web = new Blob(["hello"]).stream() as ReadableStream<Uint8Array>;
			expect((await box.exec("cat", { stdin: web })).stdout).toBe("hello");
		});

		test("five megabytes that nobody reads hold nothing up", async () => {
			expect(await box.exec("true", { stdin: Buffer.alloc(5_000_000) })).toMatchObject({ exitCode: 0 });
			const endless = (async function* () {
				for (;;) yield Buffer.alloc(65_536);
			})();
			expect((await box.exec("head -c 3", { stdin: endless })).stdout).toBe("\0\0\0");
		});

		test("raw bytes are exact, and text never throws (T05)", async () => {
			const { stdout } = await box.bytes("head -c 4096 /dev/urandom | tee r.bin");
			expect(stdout.length).toBe(4096);
			expect((await box.bytes("cat r.bin")).stdout.equals(stdout)).toBe(true);
			expect(typeof (await box.exec("cat r.bin")).stdout).toBe("string");
		});

		test("text that is split between writes is whole", async () => {
			const { stdout } = await box.exec(
				"printf '\\342\\202'; sleep 0.1; printf '\\254\\360\\237'; sleep 0.1; printf '\\230\\200'",
			);
			expect(stdout).toBe("€😀");
		});

		test("each command stands alone (T10)", async () => {
			expect((await box.exec("exit 4")).exitCode).toBe(4);
			expect(await box.exec("set -e; false; echo no")).toMatchObject({ exitCode: 1, stdout: "" });
			expect((await box.exec("cd /; export X=1; alias ls=false; umask 777")).exitCode).toBe(0);
			expect((await box.exec("exec false")).exitCode).toBe(1);
			expect((await box.exec("echo $X; pwd; ls >/dev/null; umask")).stdout).toBe("\n/workspace\n0022\n");
		});

		test("a process starts clean: three descriptors, default signals, a group and session of its own", async () => {
			const script = [
				"for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 63 255; do [ -e /proc/$$/fd/$i ] && echo $i; done",
				"grep -E '^Sig(Ign|Blk):' /proc/self/status",
				"cut -d' ' -f1,5,6 /proc/$$/stat",
			].join("; ");
			const lines = (await box.exec(script, { stdin: "" })).stdout.trim().split("\n");
			const fds = lines.filter((line) => /^\d+$/.test(line));
			// A shell may keep its script open at 10 and above.
			expect(fds.filter((fd) => Number(fd) < 10)).toEqual(["0", "1", "2"]);
			// SIGPIPE and SIGCHLD and the rest: nothing is ignored or blocked.
			expect(lines.filter((line) => /^Sig.*\t0{16}$/.test(line))).toHaveLength(2);
			const [pid, group, session] = (lines.at(-1) ?? "").split(" ");
			expect([group, session]).toEqual([pid, pid]);
		});

		test("a missing working directory is an error and nothing has run", async () => {
			const error = await errorOf(box.exec("touch ran", { cwd: "no/such" }));
			expect(isSandboxError(error, "bad_cwd") && error.details.cwd).toBe("/workspace/no/such");
			expect((await box.exec("ls ran")).exitCode).not.toBe(0);
			await box.exec("mkdir -p 'sub dir'");
			expect((await box.exec(["pwd"], { cwd: "sub dir" })).stdout).toBe("/workspace/sub dir\n");
			expect((await box.exec(["pwd"], { cwd: "/" })).stdout).toBe("/\n");
		});

		test("the streams are apart, and listeners see every byte (T12)", async () => {
			const seen: string[] = [];
			const result = await box.exec("echo out; echo err >&2", {
				onStdout: (chunk) => void seen.push(`1${chunk}`),
				onStderr: async (chunk) => void seen.push(`2${chunk}`),
			});
			expect(result).toMatchObject({ stdout: "out\n", stderr: "err\n" });
			expect(seen.sort()).toEqual(["1out\n", "2err\n"]);
		});

		test("the result comes at once though a child holds stdout, and the child goes on and may speak", async () => {
			const [result, ms] = await elapsed(() =>
				box.exec("(sleep 5; echo late; echo later >&2; echo alive > child) & echo started"),
			);
			expect(result).toMatchObject({ stdout: "started\n", exitCode: 0 });
			expect(ms).toBeLessThan(3000);
			await until(async () => (await box.exec("sleep 0.2; cat child")).stdout === "alive\n");
		});

		test("a time limit ends the whole tree and nothing else (T02, T04)", async () => {
			const neighbour = box.exec("sleep 7; echo neighbour");
			const script =
				"echo before; (setsid sleep 1111 &); setsid sh -c \"trap '' TERM; while :; do sleep 1112; done\" & " +
				"env -i setsid sleep 1113 & trap '' TERM; while :; do sleep 1114; done";
			const [result, ms] = await elapsed(() => box.exec(script, { timeoutMs: 1000, killGraceMs: 500 }));
			expect(result).toMatchObject({ timedOut: true, stdout: "before\n", exitCode: 137 });
			expect(ms).toBeGreaterThan(1400);
			expect(ms).toBeLessThan(5000);
			expect(await box.processes()).not.toMatch(/sleep 111\d/);
			expect((await box.exec("echo next")).stdout).toBe("next\n");
			expect(await neighbour).toMatchObject({ stdout: "neighbour\n", exitCode: 0, timedOut: false });
		});

		test("a command that heeds SIGTERM ends before the grace is over and may say a last word", async () => {
			const [result, ms] = await elapsed(() =>
				box.exec("trap 'echo bye; exit 9' TERM; while :; do sleep 0.1; done", { timeoutMs: 500, killGraceMs: 20_000 }),
			);
			expect(result).toMatchObject({ timedOut: true, exitCode: 9, stdout: "bye\n" });
			expect(ms).toBeLessThan(8000);
		});

		test("an abort rejects with the caller's reason once the tree is dead (T13)", async () => {
			const controller = new AbortController();
			const reason = new Error("enough");
			const started = box.exec("echo up; sleep 1115", {
				signal: controller.signal,
				onStdout: () => controller.abort(reason),
			});
			expect(await errorOf(started)).toBe(reason);
			expect(await box.processes()).not.toContain("sleep 1115");
			expect(await errorOf(box.exec("touch aborted", { signal: AbortSignal.abort(reason) }))).toBe(reason);
			expect((await box.exec("ls aborted")).exitCode).not.toBe(0);
			const after = new AbortController();
			expect((await box.exec("true", { signal: after.signal })).exitCode).toBe(0);
			expect(getEventListeners(after.signal, "abort")).toEqual([]);
			after.abort();
		});

		test("orphans leave no zombies (T03)", async () => {
			await box.exec('i=0; while [ $i -lt 60 ]; do i=$((i+1)); (sh -c "true &"); done; sleep 1');
			const { stdout } = await box.exec(
				`for s in /proc/[0-9]*/stat; do read -r l <$s; l=\${l##*) }; echo \${l%% *}; done 2>/dev/null`,
			);
			expect(stdout.split("\n").filter((state) => state === "Z").length).toBeLessThanOrEqual(2);
		});

		test("a command that kills the shell that waits for it is ended, and its end is said to be unknown", async () => {
			expect(await codeOf(box.exec("kill -9 $PPID; sleep 1116"))).toBe("exec_lost");
			expect(await box.processes()).not.toContain("sleep 1116");
		});

		test("pkill finds the command and not what waits for it", async () => {
			const running = box.exec("echo up; exec sleep 1117");
			await until(async () => (await box.processes()).includes("sleep 1117"));
			await box.exec(
				`for d in /proc/[0-9]*; do case $(tr "\\0" " " <$d/cmdline) in *"sleep "1117*) [ \${d#/proc/} = $$ ] || kill -9 \${d#/proc/};; esac; done 2>/dev/null`,
			);
			expect(await running).toMatchObject({ exitCode: 137, stdout: "up\n" });
		});

		test("one shell can run one command after the other by the same text, each apart", async () => {
			const run = (nonce: string, command: string): string => `__sbx_run ${nonce} / m sh -c '${command}'`;
			const script = [PREPARE, RUN_ONE, run("N1", "echo a; kill -9 $$"), run("N2", "echo b; exit 3")].join("\n");
			const { stdout, stderr } = await box.exec(["sh", "-c", script]);
			expect(stdout.replace(/( s)?( o\d+)?( p\d+)?\n/g, "\n")).toMatch(/^N1 P\d+\na\nN1 137\nN2 P\d+\nb\nN2 3\n$/);
			expect(stderr).toBe("N1 P\nN1 E\nN2 P\nN2 E\n");
		});

		test("closing its own streams does not hide a status", async () => {
			expect((await box.exec("exec >&- 2>&- <&-; sleep 0.2; exit 3")).exitCode).toBe(3);
		});

		test("a terminal merges the streams, has its size, and tells the status", async () => {
			const terminal = { columns: 91, rows: 17 };
			const result = await box.exec("tty >/dev/null && echo yes; echo err >&2; exit 7", { terminal });
			expect(result).toMatchObject({ stdout: "yes\r\nerr\r\n", stderr: "", exitCode: 7 });
			expect((await box.exec("kill -9 $$", { terminal })).exitCode).toBe(137);
			expect((await box.exec(["nosuchcmd"], { terminal })).exitCode).toBe(127);
			expect(await codeOf(box.exec("true", { terminal, cwd: "/no" }))).toBe("bad_cwd");
			const [timedOut, ms] = await elapsed(() => box.exec("sleep 1118", { terminal, timeoutMs: 500 }));
			expect(timedOut.timedOut).toBe(true);
			expect(ms).toBeLessThan(5000);
		});

		test("the end of a tree is found without grep", async () => {
			const script = END_TREE.replace("command -v grep", "command -v no-such-grep");
			const running = box.exec("(env X=1 setsid sleep 1119 &); sleep 1120", { env: { MARK: "a\nb" } });
			await until(async () => (await box.processes()).includes("sleep 1120"));
			const marker = (
				await box.exec(
					"for e in /proc/[0-9]*; do case $(tr '\\0' ' ' <$e/cmdline) in 'sleep '1120*) tr '\\0' '\\n' <$e/environ | grep SANDBOXES_EXEC=;; esac; done 2>/dev/null",
				)
			).stdout.trim();
			expect(marker).toMatch(/^SANDBOXES_EXEC=/);
			const ended = await box.exec(["sh", "-c", script, "x", marker.split("=")[1] ?? "", "0", "50", "", "canary"]);
			expect(ended.stdout).toBe("left:\n");
			expect((await running).exitCode).toBe(143);
			expect(await box.processes()).not.toMatch(/sleep 11(19|20)/);
		});
	});

	describe("much of everything", () => {
		let box: Box;
		beforeAll(async () => {
			box = await boxes.make({ image: DEBIAN });
		});

		test("64 MiB of output come byte for byte", async () => {
			const size = 64 * 1024 * 1024;
			const hash = createHash("sha256");
			const result = await box.bytes(`head -c ${size} /dev/urandom | tee big; sha256sum <big >&2; rm big`, {
				maxOutputBytes: size,
				onStdout: (chunk) => void hash.update(chunk),
			});
			const expected = result.stderr.toString().split(" ")[0];
			expect(createHash("sha256").update(result.stdout).digest("hex")).toBe(expected);
			expect(hash.digest("hex")).toBe(expected);
			expect(result).toMatchObject({ truncated: false, outputBytes: { stdout: size } });
		});

		test("what is above maxOutputBytes is cut, said, and seen by listeners", async () => {
			let seen = 0;
			const result = await box.exec("seq 1 200000; echo e >&2", {
				maxOutputBytes: 1000,
				onStdout: (chunk) => {
					seen += chunk.length;
				},
			});
			expect(result.truncated).toBe(true);
			expect(result.stdout.length).toBe(1000);
			expect(result.stdout.startsWith("1\n2\n3\n")).toBe(true);
			expect(result.stdout.endsWith("199999\n200000\n")).toBe(true);
			expect(result.stderr).toBe("e\n");
			expect(seen).toBe(result.outputBytes.stdout);
			expect(result.cut).toEqual({ stdout: { atByte: 500, bytes: seen - 1000 } });
		});

		test("a slow listener holds the command back and loses nothing", async () => {
			let seen = 0;
			const result = await box.exec("head -c 3000000 /dev/zero", {
				maxOutputBytes: 10,
				onStdout: async (chunk) => {
					seen += chunk.length;
					await new Promise((resolve) => setTimeout(resolve, 2));
				},
			});
			expect([seen, result.exitCode]).toEqual([3_000_000, 0]);
		});

		test("a listener that fails ends the command and rejects with its own error", async () => {
			const failure = new Error("listener");
			const failing = { onStdout: () => Promise.reject(failure) };
			expect(await errorOf(box.exec("echo x; sleep 1121", failing))).toBe(failure);
			expect(await box.processes()).not.toContain("sleep 1121");
		});

		test("a listener that never answers does not outlive a time limit", async () => {
			const [result, ms] = await elapsed(() =>
				box.exec("echo x; sleep 1122", { timeoutMs: 500, onStdout: () => new Promise(() => {}) }),
			);
			expect(result).toMatchObject({ timedOut: true, stdout: "x\n" });
			expect(ms).toBeLessThan(5000);
		});

		test("a source that fails ends the command and rejects with its own error", async () => {
			const failure = new Error("source");
			const source = (async function* () {
				yield "x";
				throw failure;
			})();
			expect(await errorOf(box.exec("sleep 1123", { stdin: source }))).toBe(failure);
		});

		test("20 commands at once each get their own answer", async () => {
			const results = await Promise.all(Array.from({ length: 20 }, (_, i) => box.exec(`echo ${i}; exit ${i}`)));
			expect(results.map((result) => [result.stdout, result.exitCode])).toEqual(
				Array.from({ length: 20 }, (_, i) => [`${i}\n`, i]),
			);
		});

		test("a quiet command is not cut (T11)", async () => {
			const [one, two] = await Promise.all([
				box.exec("sleep 20; echo done"),
				box.exec("sleep 20; echo done", { timeoutMs: 600_000 }),
			]);
			expect([one.stdout, two.stdout]).toEqual(["done\n", "done\n"]);
		});

		test("a running command can be signalled and tells its pid", async () => {
			let heard = "";
			const request = boxes.commands.normalise("trap 'exit 5' USR1; echo $$; while :; do sleep 0.1; done", {
				timeoutMs: 20_000,
				onStdout: (chunk: Buffer) => {
					heard += chunk;
				},
			});
			const running = boxes.commands.start(box.target, request);
			const pid = await running.pid;
			await until(async () => (await box.exec("true")).exitCode === 0 && heard !== "");
			expect(await running.kill("SIGUSR1")).toBe(true);
			expect(await running.result).toMatchObject({ exitCode: 5, stdout: `${pid}\n` });
			expect(await running.kill()).toBe(false);
			expect(await codeOf(running.kill("SIGNOPE"))).toBe("invalid_input");
		});

		test("a terminal can be resized while it runs", async () => {
			const request = boxes.commands.normalise("trap 'stty size; exit' WINCH; echo up; while :; do sleep 0.1; done", {
				terminal: { columns: 80, rows: 24 },
				onStdout: (chunk: Buffer) => {
					if (chunk.includes("up")) void running.resize({ columns: 101, rows: 31 });
				},
				timeoutMs: 10_000,
			});
			const running = boxes.commands.start(box.target, request);
			expect((await running.result).stdout).toContain("31 101");
		});

		test("another user runs as such, and one that the image does not know is refused", async () => {
			expect((await box.exec("id -u", { user: "root" })).stdout).toBe("0\n");
			expect((await box.exec("id -u; id -g", { user: "4321:1234" })).stdout).toBe("4321\n1234\n");
			expect(await codeOf(box.exec("true", { user: "nosuch" }))).toBe("invalid_input");
		});

		test("variables of the sandbox stand under those of the command, and odd ones of the container are given again", async () => {
			const odd = await boxes.make({ image: DEBIAN, env: { "a.b": "image", PLAIN: "image", OVER: "image" } });
			const record = await boxes.engine.inspectContainer(odd.target.id);
			const target = { ...odd.target, containerEnv: record?.env ?? {}, env: { OVER: "box", X: "box" } };
			const { stdout } = await boxes.box(target).exec(["env"], { env: { X: "command" } });
			expect(stdout.split("\n")).toEqual(expect.arrayContaining(["a.b=image", "PLAIN=image", "OVER=box", "X=command"]));
		});
	});

	describe("a root sandbox", () => {
		test("a time limit ends what runs as another user inside", async () => {
			const box = await boxes.make({
				image: DEBIAN,
				user: "root",
				capAdd: ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETUID", "SETGID"],
			});
			const script =
				"setpriv --reuid=1234 --regid=1234 --clear-groups sh -c 'trap \"\" TERM; setsid sleep 1124 & sleep 1125; sleep 1126'";
			const [result, ms] = await elapsed(() => box.exec(script, { timeoutMs: 1000, killGraceMs: 500 }));
			expect(result.timedOut).toBe(true);
			expect(ms).toBeLessThan(8000);
			expect(await box.processes()).not.toMatch(/sleep 112[456]/);
		});
	});

	describe("an image without a shell", () => {
		test("runs programs directly, with true statuses", async () => {
			expect(await importBusybox(NO_SHELL, { shell: false })).toBeDefined();
			const box = await boxes.make({ image: NO_SHELL, command: ["/bin/busybox", "sleep", "3600"] });
			for (let round = 0; round < 2; round++) {
				expect(await box.exec(["busybox", "echo", "hi"])).toMatchObject({ stdout: "hi\n", exitCode: 0 });
				expect(await box.exec(["busybox", "false"])).toMatchObject({ exitCode: 1 });
				expect(await box.exec(["busybox", "cat"], { stdin: "in" })).toMatchObject({ stdout: "in" });
				const missing = await box.exec(["nosuchcmd"]);
				expect([missing.exitCode, missing.stdout]).toEqual([127, ""]);
				expect(missing.stderr).toContain("nosuchcmd");
				expect((await box.exec(["/etc"])).exitCode).toBe(126);
				expect((await box.exec("echo hi")).exitCode).toBe(127);
			}
			const env = (await box.exec(["busybox", "env"], { env: { "a.b": "1" } })).stdout;
			expect(env).toContain("a.b=1\n");
		});
	});

	describe("when the container ends", () => {
		test("under a command, it is gone, with the output so far", async () => {
			const box = await boxes.make({ image: DEBIAN });
			const error = await errorOf(
				box.exec("echo before; echo warn >&2; sleep 60", {
					onStdout: () => void boxes.engine.removeContainer(box.target.id),
				}),
			);
			expect(isSandboxError(error, "gone") && error.details).toMatchObject({ stdout: "before\n" });
			expect(await codeOf(box.exec("true"))).toBe("gone");
			expect(await codeOf(box.exec("true", { timeoutMs: 1 }))).toBe("gone");
		});

		test("by a stop, commands in flight are told to end and it takes no longer than the grace (T31)", async () => {
			const box = await boxes.make({ image: DEBIAN });
			const { id } = box.target;
			const again = async (): Promise<void> => void (await boxes.engine.startContainer(id));

			for (let i = 0; i < 2; i++) {
				const [, idle] = await elapsed(() => boxes.engine.stopContainer(id, 10_000));
				expect(idle).toBeLessThan(2000);
				await again();
			}

			const sleeping = box
				.exec("echo up; sleep 600", { onStdout: () => stopSoon(10_000) })
				.catch((error: unknown) => error);
			let stopped: Promise<[boolean, number]> = Promise.resolve([false, 0]);
			function stopSoon(graceMs: number): void {
				stopped = elapsed(() => boxes.engine.stopContainer(id, graceMs));
			}
			const slept = await sleeping;
			expect((await stopped)[1]).toBeLessThan(3000);
			expect(isSandboxError(slept) ? slept.code : (slept as { exitCode: number }).exitCode).toSatisfy((end) =>
				["stopped", 143].includes(end as never),
			);
			expect(await codeOf(box.exec("true"))).toBe("stopped");
			await again();

			const stubborn = errorOf(
				box.exec("trap '' TERM; echo up; while :; do sleep 1; done", { onStdout: () => stopSoon(1000) }),
			);
			expect(isSandboxError(await stubborn, "stopped")).toBe(true);
			expect((await stopped)[1]).toBeLessThan(3000);
			await again();

			const polite = box
				.exec("trap 'echo bye > bye; exit' TERM; echo up; while :; do sleep 0.2; done", {
					onStdout: () => {
						stopped = elapsed(() => boxes.engine.stopContainer(id, 5000));
					},
				})
				.catch(() => {});
			await polite;
			expect((await stopped)[1]).toBeLessThan(5000);
			expect((await boxes.engine.readContainerFile(id, "/workspace/bye"))?.toString()).toBe("bye\n");

			const [did, ms] = await elapsed(() => boxes.engine.stopContainer(id, 5000));
			expect(did).toBe(false);
			expect(ms).toBeLessThan(2000);
		});

		test.each([
			["dash", DEBIAN],
			["busybox", BUSYBOX],
		])("its supervisor ends at once under %s", async (_shell, image) => {
			const box = await boxes.make({ image });
			const running = box.exec("echo up; sleep 601").catch(() => {});
			await until(async () => (await box.processes()).includes("sleep 601"));
			const [, ms] = await elapsed(() => boxes.engine.stopContainer(box.target.id, 10_000));
			expect(ms).toBeLessThan(3000);
			await running;
			expect(await boxes.engine.inspectContainer(box.target.id)).toMatchObject({ state: "exited" });
		});

		test("paused is told as such", async () => {
			const box = await boxes.make({ image: DEBIAN });
			await boxes.engine.pauseContainer(box.target.id);
			const error = await errorOf(box.exec("true"));
			expect(isSandboxError(error, "stopped") && error.details.state).toBe("paused");
			await boxes.engine.unpauseContainer(box.target.id);
		});
	});

	describe("out of memory", () => {
		test("is told of the command that was hit and of no other", async () => {
			const box = await boxes.make({ image: DEBIAN, memoryBytes: 64 * 1024 * 1024 });
			const quiet = box.exec("sleep 4");
			const killed = box.exec("kill -9 $$");
			const [hit, child] = [await box.exec(["sh", "-c", `exec ${EAT}`]), await box.exec(`${EAT}; echo after`)];
			expect(hit).toMatchObject({ exitCode: 137, oomKilled: true });
			expect(child.stdout).toBe("after\n");
			expect(await quiet).toMatchObject({ exitCode: 0, oomKilled: false });
			expect(await killed).toMatchObject({ exitCode: 137, oomKilled: false });
			expect(await box.exec(`${EAT}; echo after`)).toMatchObject({ exitCode: 0, oomKilled: true });
			expect(await box.exec("true")).toMatchObject({ exitCode: 0, oomKilled: false });
		});
	});

	describe("a fork bomb", () => {
		test("is told as too many processes, and only then", async () => {
			const box = await boxes.make({ image: DEBIAN, pids: 40 });
			expect((await box.exec("true")).pidsExceeded).toBeUndefined();
			const result = await box.exec("i=0; while [ $i -lt 80 ]; do sleep 1 & i=$((i+1)); done", { timeoutMs: 5000 });
			expect(result.pidsExceeded).toBe(true);
			await until(async () => (await box.exec(["sleep", "0.2"])).pidsExceeded === undefined);
		});

		test("in the background fills the sandbox, and the next command still finds room", async () => {
			const box = await boxes.make({ image: DEBIAN, pids: 64 });
			await box.exec("f() { f | f & }; f", { timeoutMs: 3000 }).catch(() => {});
			const [after, ms] = await elapsed(() => box.exec("echo usable"));
			expect(after.stdout).toBe("usable\n");
			expect(ms).toBeLessThan(10_000);
		});

		test("leaves the sandbox usable once it is ended", async () => {
			const box = await boxes.make({ image: DEBIAN, pids: 64 });
			const [result] = await elapsed(() =>
				box
					.exec("f() { f | f & }; f; while :; do :; done", { timeoutMs: 2000, killGraceMs: 300 })
					.catch((error: unknown) => error),
			);
			expect(isSandboxError(result) ? result.code : (result as { timedOut: boolean }).timedOut).toSatisfy((end) =>
				[true, "exec_lost"].includes(end as never),
			);
			const [after, ms] = await elapsed(() => box.exec("echo usable"));
			expect(after.stdout).toBe("usable\n");
			expect(ms).toBeLessThan(10_000);
		});
	});
}

/** What an engine must do with commands that run in a container. */
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import {
	Collected,
	createdContainer,
	expectFailure,
	finished,
	run,
	runningContainer,
	type Subject,
	useSubject,
} from "./contract-subject.js";

const SILENT = { onStdout() {}, onStderr() {} };

export function execContract(open: () => Promise<Subject>): void {
	const subject = useSubject(open);
	const engine = () => subject().engine;

	describe("commands", () => {
		let box = "";
		beforeAll(async () => {
			box = await runningContainer(subject());
		});
		afterAll(async () => {
			await engine().removeContainer(box);
		});

		test("both streams and the exit code come back, each by itself", async () => {
			expect(await run(subject(), box, ["sh", "-c", "echo out; echo err >&2; exit 3"])).toMatchObject({
				stdout: "out\n",
				stderr: "err\n",
				exitCode: 3,
				running: false,
			});
		});

		test("arguments and variables arrive byte for byte", async () => {
			const odd = "a b\n'\"$HOME\\ ü";
			expect(await run(subject(), box, ["printenv", "ODD"], { env: { ODD: odd } })).toMatchObject({
				stdout: `${odd}\n`,
			});
			expect(await run(subject(), box, ["printf", "%s|", odd, "", "-n"])).toMatchObject({ stdout: `${odd}||-n|` });
		});

		test("user and working directory can be chosen", async () => {
			expect(await run(subject(), box, ["id", "-u"])).toMatchObject({ stdout: "1000\n" });
			expect(await run(subject(), box, ["id", "-u"], { user: "1234:5" })).toMatchObject({ stdout: "1234\n" });
			expect(await run(subject(), box, ["pwd"], { workingDir: "/usr" })).toMatchObject({ stdout: "/usr\n" });
		});

		test("without stdin a command reads an end of file at once", async () => {
			expect(await run(subject(), box, ["cat"])).toMatchObject({ stdout: "", exitCode: 0 });
		});

		test("what is written is read to its end", async () => {
			expect(await run(subject(), box, ["cat"], { input: "in\0put" })).toMatchObject({
				stdout: "in\0put",
				exitCode: 0,
			});
			const much = await run(subject(), box, ["wc", "-c"], { input: Buffer.alloc(3_000_000) });
			expect(much.stdout.trim()).toBe("3000000");
		});

		test("a command that ends without reading ends all the same, and what is written then is dropped", async () => {
			const output = new Collected();
			const exec = await engine().exec(box, { argv: ["head", "-c", "3"], env: {}, stdin: true }, output);
			const written = exec.write(Buffer.alloc(4_000_000, "a"));
			await exec.ended;
			await written;
			await exec.write(Buffer.from("more"));
			exec.endInput();
			expect(output.stdout).toBe("aaa");
			expect(await finished(subject(), exec)).toMatchObject({ exitCode: 0 });
		});

		test("a sink that holds back is never given more meanwhile, and loses nothing", async () => {
			let bytes = 0;
			let open = 0;
			let most = 0;
			const sink = {
				async onStdout(chunk: Buffer): Promise<void> {
					open += 1;
					most = Math.max(most, open);
					await new Promise((resolve) => setImmediate(resolve));
					bytes += chunk.length;
					open -= 1;
				},
				onStderr() {},
			};
			const exec = await engine().exec(
				box,
				{ argv: ["head", "-c", "3000000", "/dev/zero"], env: {}, stdin: false },
				sink,
			);
			await exec.ended;
			expect({ bytes, most, open }).toEqual({ bytes: 3_000_000, most: 1, open: 0 });
		});

		test("what the sink throws is how the stream ends", async () => {
			const failure = new Error("the disk is full");
			for (const onStdout of [
				() => {
					throw failure;
				},
				() => Promise.reject(failure),
			]) {
				const exec = await engine().exec(box, { argv: ["cat"], env: {}, stdin: true }, { ...SILENT, onStdout });
				await exec.write(Buffer.from("x"));
				await expect(exec.ended).rejects.toBe(failure);
				exec.close();
			}
		});

		test("a connection that is given up leaves the command running", async () => {
			const exec = await engine().exec(box, { argv: ["sleep", "600"], env: {}, stdin: false }, SILENT);
			expect(await engine().inspectExec(exec.id)).toMatchObject({ running: true, exitCode: null });
			exec.close();
			exec.close();
			await expect(exec.ended).rejects.toMatchObject({ code: "engine_unavailable", details: { reason: "closed" } });
			expect(await engine().inspectExec(exec.id)).toMatchObject({ running: true, exitCode: null });
			exec.ref();
			exec.unref();
		});

		test("in a terminal both streams are one, and its size is known and can change", async () => {
			const output = new Collected();
			const exec = await engine().exec(
				box,
				{
					argv: ["sh", "-c", "read x; stty size; echo err >&2; read y; stty size"],
					env: {},
					stdin: true,
					terminal: { columns: 97, rows: 23 },
				},
				output,
			);
			await exec.write(Buffer.from("go\n"));
			await vi.waitFor(() => expect(output.stdout).toMatch(/23 97\s+err/), { timeout: 10_000 });
			await exec.resize({ columns: 131, rows: 41 });
			await exec.write(Buffer.from("go\n"));
			await exec.ended;
			expect(output.stdout).toContain("41 131");
			expect(output.stderr).toBe("");
			await exec.resize({ columns: 10, rows: 10 });
		});

		test("a command of a container that is removed ends", async () => {
			const id = await runningContainer(subject());
			const exec = await engine().exec(id, { argv: ["sleep", "600"], env: {}, stdin: false }, SILENT);
			await engine().removeContainer(id);
			await exec.ended;
		});

		test("a container that is stopped or paused is refused as that", async () => {
			const id = await createdContainer(subject());
			const attempt = () => engine().exec(id, { argv: ["true"], env: {}, stdin: false }, SILENT);
			await expectFailure(attempt(), "not_running");
			await engine().startContainer(id);
			await engine().pauseContainer(id);
			await expectFailure(attempt(), "paused");
			await engine().stopContainer(id, 1000);
			await expectFailure(attempt(), "not_running");
		});

		test("an unknown command is refused as that", async () => {
			await expectFailure(engine().inspectExec("0".repeat(64)), "no_such_exec");
		});
	});
}

/** What is true of a Docker daemon only: its odd ways that the engine room relies on, and the hardening seen from inside. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test, vi } from "vitest";
import { connectEngine } from "../../src/engine/docker-engine.js";
import type { ContainerSpec } from "../../src/engine/engine.js";
import { objectOf } from "../../src/engine/json-fields.js";
import { realEngine, removeLabelled, testImage, testLabel } from "../support/real-engine.js";
import {
	contextOf,
	createdContainer,
	expectFailure,
	finished,
	freshName,
	run,
	runningContainer,
	type Subject,
	specOf,
	useSubject,
} from "./contract-subject.js";

const found = await realEngine();
const SILENT = { onStdout() {}, onStderr() {} };

describe.skipIf(!found)("a Docker daemon", () => {
	const engine = found ?? connectEngine();
	const subject = useSubject(async (): Promise<Subject> => {
		const labels = testLabel("docker-facts");
		const prefix = `factstest-${process.pid}-${Math.random().toString(36).slice(2, 8)}`;
		const close = async (): Promise<void> => void (await removeLabelled(engine, labels));
		return { engine, image: testImage(), labels, prefix, bridge: "bridge", close };
	});
	const box = (changes?: Partial<ContainerSpec>) => runningContainer(subject(), changes);

	describe("hardening, seen from inside", () => {
		test("no capability, no new privileges, no core dumps, an init as first process", async () => {
			const id = await box({ user: "root" });
			const { stdout } = await run(subject(), id, [
				"sh",
				"-c",
				"grep -E '^(Cap(Eff|Bnd|Prm)|NoNewPrivs)' /proc/self/status; ulimit -Hc; cat /proc/1/comm",
			]);
			expect(stdout.replace(/\s+/g, " ")).toBe(
				`CapPrm: ${"0".repeat(16)} CapEff: ${"0".repeat(16)} CapBnd: ${"0".repeat(16)} NoNewPrivs: 1 0 docker-init `,
			);
		});

		test("limits of memory without swap, processes and shared memory hold", async () => {
			const id = await box({ memoryBytes: 32 * 1024 * 1024, pids: 20, shmBytes: 1024 * 1024 });
			const eater = await run(subject(), id, ["sh", "-c", "head -c 100000000 /dev/zero | tail -c 99999999 | wc -c"]);
			expect(eater.stdout.trim()).not.toBe("99999999");
			const shm = await run(subject(), id, ["sh", "-c", "head -c 2000000 /dev/zero >/dev/shm/x"]);
			expect(shm.stderr).toMatch(/no space/i);
			const forks = await run(subject(), id, ["sh", "-c", "for i in $(seq 40); do sleep 5 & done; wait"]);
			expect(forks.stderr).toMatch(/fork/i);
		});

		test("what the first process says goes nowhere, and nothing restarts it", async () => {
			const id = await box({ entrypoint: ["sh", "-c"], command: ["echo said; exit 3"] });
			await vi.waitFor(async () =>
				expect(await engine.inspectContainer(id)).toMatchObject({ state: "exited", exitCode: 3 }),
			);
			const host = objectOf(objectOf((await engine.inspectContainer(id))?.raw)["HostConfig"]);
			expect(host).toMatchObject({ LogConfig: { Type: "none" }, RestartPolicy: { Name: "no" }, IpcMode: "private" });
			expect(host["MemorySwap"]).toBe(host["Memory"]);
		});

		test("a read-only root and a tmpfs behave as asked", async () => {
			const id = await box({ readOnlyRoot: true, tmpfs: { "/scratch": "rw,size=1m,mode=1777" } });
			expect((await run(subject(), id, ["touch", "/tmp/x"])).stderr).toMatch(/read-only/i);
			expect(await run(subject(), id, ["touch", "/scratch/x"])).toMatchObject({ exitCode: 0 });
		});
	});

	describe("mounts", () => {
		const dirs: string[] = [];
		afterEach(() => {
			for (const dir of dirs.splice(0)) rmSync(dir, { recursive: true });
		});
		const directory = () => {
			const dir = mkdtempSync(join(tmpdir(), "facts-"));
			dirs.push(dir);
			return dir;
		};

		test("a source with a colon, a comma and a space in its path works, writable or not", async () => {
			const source = join(directory(), "a:b, c");
			mkdirSync(source);
			writeFileSync(join(source, "here"), "yes");
			const mounts = [
				{ source, target: "/in", readOnly: true },
				{ source, target: "/out", readOnly: false },
			];
			const id = await box({ mounts, user: "root", capAdd: ["DAC_OVERRIDE"] });
			expect(await run(subject(), id, ["cat", "/in/here"])).toMatchObject({ stdout: "yes" });
			expect((await run(subject(), id, ["touch", "/in/more"])).stderr).toMatch(/read-only/i);
			expect(await run(subject(), id, ["touch", "/out/more"])).toMatchObject({ exitCode: 0 });
		});

		test("a missing source is refused at create, and not made", async () => {
			const source = join(directory(), "missing");
			const mounts = [{ source, target: "/in", readOnly: true }];
			await expectFailure(engine.createContainer(specOf(subject(), { mounts })), "bad_request");
			expect(() => rmSync(source)).toThrow(/ENOENT/);
		});
	});

	describe("commands", () => {
		test("a missing program and a missing directory are told on stdout, with exit code 126", async () => {
			const id = await box();
			const program = await run(subject(), id, ["no-such-program"]);
			expect(program).toMatchObject({ exitCode: 126, stderr: "" });
			expect(program.stdout).toMatch(/^OCI runtime exec failed: .*not found/);
			const directory = await run(subject(), id, ["true"], { workingDir: "/no/such" });
			expect(directory).toMatchObject({ exitCode: 126, stderr: "" });
			expect(directory.stdout).toMatch(/^OCI runtime exec failed: .*no such file or directory/);
		});

		test("a terminal whose command cannot start ends without waiting", async () => {
			const id = await box();
			const from = Date.now();
			const ran = await run(subject(), id, ["no-such-program"], { terminal: { columns: 80, rows: 24 } });
			expect(ran.exitCode).toBe(126);
			expect(Date.now() - from).toBeLessThan(8000);
		});

		test("a terminal passes on every key, those that would detach elsewhere too", async () => {
			const id = await box();
			let text = "";
			const exec = await engine.exec(
				id,
				{
					argv: ["sh", "-c", "stty raw -echo; echo ready; head -c 4 | od -An -tx1"],
					env: {},
					stdin: true,
					terminal: { columns: 80, rows: 24 },
				},
				{
					...SILENT,
					onStdout(chunk) {
						text += chunk;
					},
				},
			);
			await vi.waitFor(() => expect(text).toContain("ready"), { timeout: 10_000 });
			await exec.write(Buffer.from([16, 17, 30, 65]));
			await exec.ended;
			expect(text).toContain("10 11 1e 41");
		});

		test("the end of the container ends a command with 137", async () => {
			const id = await box();
			let text = "";
			const sink = {
				...SILENT,
				onStdout(chunk: Buffer) {
					text += chunk;
				},
			};
			const exec = await engine.exec(id, { argv: ["sh", "-c", "echo on; sleep 600"], env: {}, stdin: false }, sink);
			await vi.waitFor(() => expect(text).toBe("on\n"), { timeout: 10_000 });
			await engine.stopContainer(id, 0);
			await exec.ended;
			expect(await finished(subject(), exec)).toMatchObject({ exitCode: 137 });
		});

		test("a child in the background that holds stdout does not keep the stream open for ever", async () => {
			const id = await box();
			const from = Date.now();
			expect(await run(subject(), id, ["sh", "-c", "sleep 20 & exit 5"])).toMatchObject({ exitCode: 5 });
			expect(Date.now() - from).toBeLessThan(25_000);
		});

		test("a sink that holds back holds the command back", async () => {
			const id = await box();
			let release: () => void = () => {};
			const held = new Promise<void>((resolve) => {
				release = resolve;
			});
			let bytes = 0;
			const exec = await engine.exec(
				id,
				{ argv: ["head", "-c", "64000000", "/dev/zero"], env: {}, stdin: false },
				{
					...SILENT,
					async onStdout(chunk) {
						await held;
						bytes += chunk.length;
					},
				},
			);
			await new Promise((resolve) => setTimeout(resolve, 500));
			expect(await engine.inspectExec(exec.id)).toMatchObject({ running: true });
			release();
			await exec.ended;
			expect(bytes).toBe(64_000_000);
		});
	});

	describe("the first process under an init", () => {
		test("ends at once when told to, whatever the grace", async () => {
			const id = await box({ command: ["600"] });
			const from = Date.now();
			await engine.stopContainer(id, 20_000);
			expect(Date.now() - from).toBeLessThan(10_000);
		});

		test("is killed after the grace where it does not listen", async () => {
			const id = await box({ entrypoint: ["sh", "-c"], command: ["trap '' TERM; while :; do sleep 1; done"] });
			await new Promise((resolve) => setTimeout(resolve, 300));
			await engine.stopContainer(id, 500);
			expect(await engine.inspectContainer(id)).toMatchObject({ state: "exited", exitCode: 137 });
		});
	});

	describe("builds", () => {
		const spec = (dockerfile: string) => ({
			context: contextOf(dockerfile),
			tag: `${freshName(subject())}:1`,
			buildArgs: {},
			labels: subject().labels,
		});
		const containersOf = async (step: string) => {
			const all = await engine.listContainers({});
			const records = await Promise.all(all.map(({ id }) => engine.inspectContainer(id)));
			return records.filter((record) => JSON.stringify(objectOf(record?.raw)["Config"])?.includes(step));
		};

		test("a failing step leaves no container behind", async () => {
			const mark = freshName(subject());
			await expect(engine.buildImage(spec(`FROM ${subject().image}\nRUN echo ${mark}; false\n`))).rejects.toMatchObject(
				{
					code: "image_build_failed",
				},
			);
			expect(await containersOf(mark)).toEqual([]);
		});

		test.each([
			["a word that is no instruction", "FROM scratch\nNONSENSE\n", /nonsense/i],
			["a file that is not there", "FROM scratch\nCOPY missing /\n", /missing/],
			["a base image that is not to be had", "FROM localhost:1/never/made:1\n", /refused|never\/made/],
		])("%s is told in the engine's own sentence", async (_, dockerfile, says) => {
			await expect(engine.buildImage(spec(dockerfile))).rejects.toMatchObject({
				code: "image_build_failed",
				message: expect.stringMatching(says),
			});
		});

		test("an abort ends a build at once, on both sides", async () => {
			const reason = new Error("enough");
			const controller = new AbortController();
			const mark = freshName(subject());
			const from = Date.now();
			const building = engine.buildImage(spec(`FROM ${subject().image}\nRUN echo ${mark}; sleep 60\n`), {
				signal: controller.signal,
				onProgress: ({ message }) => {
					if (message.includes("Running in")) controller.abort(reason);
				},
			});
			await expect(building).rejects.toBe(reason);
			expect(Date.now() - from).toBeLessThan(20_000);
			await vi.waitFor(async () => expect(await containersOf(mark)).toEqual([]), { timeout: 20_000, interval: 200 });
		});
	});

	describe.skipIf(!engine.address.startsWith("unix:"))("over TCP", () => {
		test("everything works as over the socket, a command's input and its end too", async () => {
			const path = engine.address.replace("unix://", "");
			const relay = createServer({ allowHalfOpen: true }, (near) => {
				const far = connect({ path, allowHalfOpen: true });
				near.on("error", () => far.destroy()).on("close", () => far.destroy());
				far.on("error", () => near.destroy()).on("close", () => near.destroy());
				near.pipe(far).pipe(near);
			});
			await new Promise<void>((resolve) => relay.listen(0, "127.0.0.1", resolve));
			try {
				const { port } = relay.address() as AddressInfo;
				const remote = connectEngine({ host: `tcp://127.0.0.1:${port}`, env: {} });
				const there = { ...subject(), engine: remote };
				const id = await runningContainer(there);
				expect(await run(there, id, ["wc", "-c"], { input: Buffer.alloc(300_000) })).toMatchObject({
					stdout: "300000\n",
				});
				const tag = `${freshName(subject())}:1`;
				const context = contextOf(`FROM ${subject().image}\nLABEL a=b\n`);
				await remote.buildImage({ context, tag, buildArgs: {}, labels: subject().labels });
				expect(await remote.removeImage(tag)).toBe(true);
			} finally {
				relay.close();
			}
		});
	});

	describe("the environment", () => {
		const before = { ...process.env };
		afterEach(() => {
			for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name];
			Object.assign(process.env, before);
		});

		test("proxies and another DOCKER_HOST change nothing for an engine that was named", async () => {
			const host = engine.address;
			for (const name of ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"])
				process.env[name] = "http://127.0.0.1:9";
			delete process.env["NO_PROXY"];
			for (const other of ["tcp://127.0.0.1:9", "tcp://[bad", "ssh://nobody@nowhere.invalid"]) {
				process.env["DOCKER_HOST"] = other;
				process.env["DOCKER_CERT_PATH"] = "/nowhere";
				const named = connectEngine({ host });
				await named.ping();
				await expect(named.pullImage("localhost:1/never/made:1")).rejects.toMatchObject({ code: "image_unavailable" });
				expect(process.env["DOCKER_HOST"]).toBe(other);
			}
		});

		test("no proxy of this process is in a container", async () => {
			process.env["HTTP_PROXY"] = "http://127.0.0.1:9";
			const id = await createdContainer(subject());
			const { env } = (await engine.inspectContainer(id)) ?? {};
			expect(Object.keys(env ?? {}).filter((name) => /proxy/i.test(name))).toEqual([]);
		});

		test("building and pulling say that no engine answers like every other call", async () => {
			const nowhere = connectEngine({ host: "unix:///nowhere/docker.sock" });
			const expected = { code: "engine_unavailable", details: { reason: "not_found", address: nowhere.address } };
			await expect(nowhere.pullImage("x")).rejects.toMatchObject(expected);
			const context = contextOf("FROM scratch");
			await expect(nowhere.buildImage({ context, tag: "x", buildArgs: {}, labels: {} })).rejects.toMatchObject(
				expected,
			);
		});
	});
});

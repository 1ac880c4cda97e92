import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { createServer, request as httpRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { docker, inspect, TEST_IMAGE } from "../support/fleet.js";
import { buildProgramOnce, type CliFleet, type Ended, makeCliFleet } from "./sbx.js";

const IMAGE = ["--image", TEST_IMAGE];
let fleet: CliFleet;

beforeAll(() => {
	buildProgramOnce();
	fleet = makeCliFleet();
});
afterAll(() => fleet?.dispose());

async function create(
	name: string,
	...options: string[]
): Promise<{ id: string; workspaceDir: string; outcome: string }> {
	const { status, stdout, stderr } = await fleet.sbx(["create", name, ...IMAGE, "--json", ...options]);
	expect({ status, stderr }).toMatchObject({ status: 0 });
	return JSON.parse(stdout);
}

describe("create", () => {
	test("says what it did: created, served, rebuilt with the reason, replaced", async () => {
		const words = ["create", "steps", ...IMAGE];
		const created = await fleet.sbx(words);
		expect(created).toMatchObject({ status: 0, stderr: "" });
		expect(created.stdout).toMatch(
			new RegExp(`^steps: created ${fleet.prefix}-steps [0-9a-f]{12} \\(${TEST_IMAGE}, /.*\\)\n$`),
		);
		const served = await fleet.sbx(words);
		expect(served.stdout).toBe(created.stdout.replace("created", "served"));
		const rebuilt = await fleet.sbx([...words, "--memory", "600m"]);
		expect(rebuilt.stdout).toMatch(/^steps: rebuilt .*\n {2}.*512 MiB is less than the asked 600 MiB/);
		expect((await fleet.sbx([...words, "--replace"])).stdout).toMatch(/^steps: replaced /);
	});

	test("with --json is one object that tells all of it", async () => {
		const { stdout } = await fleet.sbx(["create", "told", ...IMAGE, "--json"]);
		expect(stdout.split("\n")).toHaveLength(2);
		const record = JSON.parse(stdout);
		expect(Object.keys(record).sort()).toEqual([
			"because",
			"created",
			"createdAt",
			"id",
			"image",
			"imageId",
			"name",
			"outcome",
			"ports",
			"reasons",
			"workspaceDir",
		]);
		expect(record).toMatchObject({ name: "told", outcome: "created", created: true, image: TEST_IMAGE, ports: [] });
		expect(Date.parse(record.createdAt)).toBeGreaterThan(0);
		expect(existsSync(record.workspaceDir)).toBe(true);
	});

	test("every option reaches the sandbox", async () => {
		const shared = join(fleet.root, "..", "shared");
		await mkdir(shared, { recursive: true });
		await writeFile(join(shared, "note"), "from the host");
		const options =
			"--memory 256m --cpus 0.5 --pids 99 --shm-size 32m --idle-timeout 2m --max-lifetime 3m --stop-grace 4s";
		const { id } = await create(
			"options",
			...options.split(" "),
			...["--publish", "3000", "--publish", "3001/udp", "--mount", `${shared}:/shared`, "--read-only-root"],
			...["--env", "GIVEN=a b", "--env", "TAKEN", "--label", "team=x"],
		);
		const { HostConfig } = await inspect(id);
		expect(HostConfig).toMatchObject({
			Memory: 256 * 1024 ** 2,
			NanoCpus: 5e8,
			PidsLimit: 99,
			ShmSize: 32 * 1024 ** 2,
			ReadonlyRootfs: true,
		});
		const { stdout } = await fleet.sbx(["list", "--json"]);
		const info = JSON.parse(stdout).find(({ name }: { name: string }) => name === "options");
		expect(info).toMatchObject({
			idleTimeoutMs: 120_000,
			maxLifetimeMs: 180_000,
			stopGraceMs: 4000,
			labels: { team: "x" },
		});
		expect(
			info.ports.map(({ port, protocol }: { port: number; protocol: string }) => `${port}/${protocol}`).sort(),
		).toEqual(["3000/tcp", "3001/udp"]);
		const inside = await fleet.sbx(["exec", "options", "-c", "cat /shared/note; echo; echo $GIVEN"]);
		expect(inside.stdout).toBe("from the host\na b\n");
	});

	test("--env NAME takes the caller's value", async () => {
		const { status } = await fleet.sbx(["create", "told", ...IMAGE, "--env", "TAKEN"], { env: { TAKEN: "mine" } });
		expect(status).toBe(0);
		expect((await fleet.sbx(["exec", "told", "-c", "echo $TAKEN"])).stdout).toBe("mine\n");
	});
});

describe("plan", () => {
	test("says what create would do and why, and does nothing", async () => {
		expect(await fleet.sbx(["plan", "unborn", ...IMAGE])).toMatchObject({
			status: 0,
			stdout: "unborn: create\n  there is none yet\n",
		});
		const { id } = await create("planned");
		const plan = await fleet.sbx(["plan", "planned", ...IMAGE, "-m", "1g", "--json"]);
		expect(JSON.parse(plan.stdout)).toMatchObject({
			name: "planned",
			action: "rebuild",
			id,
			reasons: [{ kind: "shape", field: "memoryBytes" }],
		});
		expect(await fleet.sbx(["plan", "planned", ...IMAGE])).toMatchObject({ stdout: "planned: serve\n" });
		expect((await create("planned")).id).toBe(id);
	});
});

describe("list", () => {
	test("is a table for people and an array for programs, under both names", async () => {
		await create("listed");
		const { stdout } = await fleet.sbx(["list"]);
		expect(stdout).toMatch(/^NAME +STATE +IMAGE +MEMORY +CPUS +AGE +IDLE +LIFETIME\n/);
		expect(stdout).toMatch(new RegExp(`\nlisted +running +${TEST_IMAGE} +512 MiB +1 +\\d+m?\\d*s? +5m +1h\n`));
		const json = await fleet.sbx(["--json", "ls"]);
		const infos = JSON.parse(json.stdout) as { name: string; state: string }[];
		expect(infos.find(({ name }) => name === "listed")).toMatchObject({ state: "running" });
	});

	test("two prefixes over one root do not see each other", async () => {
		await create("mine");
		const other = `${fleet.prefix}x`;
		try {
			const elsewhere = await fleet.sbx(["--prefix", other, "create", "mine", ...IMAGE, "--json"]);
			expect(JSON.parse(elsewhere.stdout).outcome).toBe("created");
			const listed = JSON.parse((await fleet.sbx(["ls", "--json", "--prefix", other])).stdout) as { name: string }[];
			expect(listed.map(({ name }) => name)).toEqual(["mine"]);
			expect(await fleet.sbx(["rm", "--all", "--prefix", other])).toMatchObject({
				status: 0,
				stdout: "mine: removed\n",
			});
			expect((await fleet.sbx(["exec", "mine", "--", "true"])).status).toBe(0);
		} finally {
			await fleet.sbx(["rm", "--all", "--prefix", other]);
		}
	});
});

describe("stop", () => {
	test("keeps container and workspace; create starts the same one again", async () => {
		const { id, workspaceDir } = await create("stopped");
		await writeFile(join(workspaceDir, "kept"), "");
		expect(await fleet.sbx(["stop", "stopped"])).toMatchObject({ status: 0, stdout: "stopped: stopped\n" });
		expect((await inspect(id))["State"]).toMatchObject({ Running: false });
		const refused = await fleet.sbx(["exec", "stopped", "--", "true"]);
		expect(refused).toMatchObject({ status: 125, stdout: "" });
		expect(await create("stopped")).toMatchObject({ id, outcome: "started" });
		expect(existsSync(join(workspaceDir, "kept"))).toBe(true);
	});

	test("of an unknown name is status 1, and the others are stopped", async () => {
		const { id } = await create("stopped");
		const ended = await fleet.sbx(["stop", "nosuch", "stopped"]);
		expect(ended).toMatchObject({ status: 1, stdout: "stopped: stopped\n" });
		expect(ended.stderr).toMatch(/^sbx: sandbox nosuch: .*\nhint: create it first: .*sbx create nosuch\n$/);
		expect((await inspect(id))["State"]).toMatchObject({ Running: false });
	});
});

describe("remove", () => {
	async function isGone(name: string, made: { id: string; workspaceDir: string }): Promise<boolean> {
		const containers = await fleet.containers();
		const listed = JSON.parse((await fleet.sbx(["ls", "--json"])).stdout) as { name: string }[];
		return (
			!containers.some(({ id }) => id === made.id) &&
			!existsSync(made.workspaceDir) &&
			!listed.some((info) => info.name === name)
		);
	}

	function run(name: string): { ended: Promise<Ended>; up: Promise<void> } {
		let seen = (): void => {};
		const up = new Promise<void>((resolve) => {
			seen = resolve;
		});
		const started = (child: { stdout: NodeJS.ReadableStream }): void => void child.stdout.once("data", seen);
		return { ended: fleet.sbx(["exec", name, "-c", "echo up; sleep 60"], { started }), up };
	}

	test("takes container, workspace and row of a running, a stopped, a paused and a busy one", async () => {
		for (const state of ["running", "stopped", "paused", "busy"]) {
			const made = await create(state);
			if (state === "stopped") await fleet.sbx(["stop", state]);
			if (state === "paused") await docker("pause", made.id);
			const busy = state === "busy" ? [run(state)] : [];
			for (const { up } of busy) await up;
			expect(await fleet.sbx(["rm", state])).toMatchObject({ status: 0, stdout: `${state}: removed\n`, stderr: "" });
			expect(await isGone(state, made)).toBe(true);
			for (const { ended } of busy) expect((await ended).status).toBe(125);
		}
	});

	test("of an unknown name is status 1 with a message, with --force 0, and the others are removed", async () => {
		const made = { a: await create("a"), b: await create("b"), c: await create("c") };
		const ended = await fleet.sbx(["rm", "a", "b", "nosuch", "c"]);
		expect(ended).toMatchObject({
			status: 1,
			stdout: "a: removed\nb: removed\nc: removed\n",
			stderr: "sbx: nosuch: there is none of this name\n",
		});
		for (const [name, one] of Object.entries(made)) expect(await isGone(name, one)).toBe(true);
		expect(await fleet.sbx(["rm", "nosuch", "--force"])).toMatchObject({ status: 0, stdout: "", stderr: "" });
		expect(await fleet.sbx(["rm", "nosuch", "--force", "--quiet"])).toMatchObject({ status: 0, stderr: "" });
		const json = await fleet.sbx(["rm", "nosuch", "--json"]);
		expect({ status: json.status, answer: JSON.parse(json.stdout) }).toMatchObject({
			status: 1,
			answer: [{ name: "nosuch", removed: false, error: { code: "not_found" } }],
		});
	});

	test("a name that is refused does not keep the others", async () => {
		const made = await create("a");
		const ended = await fleet.sbx(["rm", "Bad Name", "a"]);
		expect(ended).toMatchObject({ status: 2, stdout: "a: removed\n" });
		expect(await isGone("a", made)).toBe(true);
	});

	test("--all with one that cannot be removed removes the others, names it, is not 0, and clears it once mended", async () => {
		const own = makeCliFleet();
		try {
			const ids = new Map<string, string>();
			for (const name of ["r1", "r2", "r3"]) {
				const made = await own.sbx(["create", name, ...IMAGE, "--json"]);
				ids.set(name, JSON.parse(made.stdout).id);
			}
			const refusing = await refuseRemovalOf(ids.get("r2") ?? "");
			try {
				const ended = await own.sbx(["rm", "--all"], { env: { DOCKER_HOST: refusing.host } });
				expect(ended.status).toBe(1);
				expect(ended.stdout.split("\n").sort()).toEqual(["", "r1: removed", "r3: removed"]);
				expect(ended.stderr).toMatch(/^sbx: removed 2 of 3 sandboxes; not removed: r2 \(/);
				const json = await own.sbx(["rm", "--all", "--json"], { env: { DOCKER_HOST: refusing.host } });
				expect(JSON.parse(json.stdout)).toMatchObject([
					{ name: "r2", removed: false, error: { code: "release_failed" } },
				]);
				expect(JSON.parse(json.stderr)).toMatchObject({ error: { code: "release_failed" } });
			} finally {
				await refusing.close();
			}
			const left = JSON.parse((await own.sbx(["ls", "--json"])).stdout) as { name: string }[];
			expect(left.map(({ name }) => name)).toEqual(["r2"]);
			expect(await own.sbx(["rm", "--all"])).toMatchObject({ status: 0, stdout: "r2: removed\n" });
		} finally {
			await own.dispose();
		}
	});
});

/** The engine behind another address, where the removal of one container fails. */
async function refuseRemovalOf(id: string): Promise<{ host: string; close(): Promise<void> }> {
	const socketPath = join(tmpdir(), `sbx-refuse-${process.pid}-${Date.now().toString(36)}.sock`);
	const server = createServer((request, response) => {
		if (request.method === "DELETE" && request.url?.includes(id)) {
			response.writeHead(500, { "content-type": "application/json" }).end('{"message":"device or resource busy"}');
			return;
		}
		const { method, url: path, headers } = request;
		const onward = httpRequest({ socketPath: "/var/run/docker.sock", method, path, headers }, (answer) => {
			response.writeHead(answer.statusCode ?? 500, answer.headers);
			answer.pipe(response);
		});
		onward.on("error", () => response.destroy());
		request.pipe(onward);
	});
	await new Promise<void>((resolve) => server.listen(socketPath, resolve));
	return {
		host: `unix://${socketPath}`,
		close: () => {
			server.closeAllConnections();
			return new Promise((resolve) => server.close(() => resolve()));
		},
	};
}

describe("images", () => {
	test("list tells each runtime, in words and in JSON", async () => {
		const { stdout } = await fleet.sbx(["images", "list"]);
		expect(stdout).toMatch(/^RUNTIME +IMAGE +BUILT +SIZE +AGE\n/);
		const infos = JSON.parse((await fleet.sbx(["images", "ls", "--json"])).stdout) as {
			runtime: string;
			built: boolean;
		}[];
		expect(infos.map(({ runtime }) => runtime).sort()).toEqual(["browser", "media", "node", "node-python", "python"]);
		for (const { runtime } of infos) expect(stdout).toContain(`\n${runtime} `);
	});

	test("build of an unknown runtime is refused with those there are", async () => {
		const ended = await fleet.sbx(["images", "build", "nod"]);
		expect(ended).toMatchObject({ status: 2, stdout: "" });
		expect(ended.stderr).toMatch(/did you mean "node"/);
	});
});

test("create that is ended by SIGTERM takes back what was half made, and says so", async () => {
	const own = makeCliFleet();
	try {
		const ended = await own.sbx(["create", "k", ...IMAGE], {
			started: async (child) => {
				// From the first row on there is something to take back, and a lock is held.
				while (child.exitCode === null && !existsSync(join(own.root, "ledger.jsonl"))) await sleep(5);
				child.kill("SIGTERM");
			},
		});
		expect(ended).toMatchObject({ status: 143, signal: null, stdout: "", stderr: "sbx: ended by SIGTERM\n" });
		expect(await own.containers()).toEqual([]);
		expect((await own.sbx(["ls", "--json"])).stdout).toBe("[]\n");
	} finally {
		await own.dispose();
	}
});

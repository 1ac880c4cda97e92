import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { isSandboxError, MiB, type Sandbox, Sandboxes } from "../../src/index.js";
import { docker, inspect, makeFleet, runProcess, TEST_IMAGE, type TestFleet } from "../support/fleet.js";

const image = TEST_IMAGE;
let fleet: TestFleet;
beforeAll(() => {
	fleet = makeFleet();
});
afterAll(() => fleet.dispose());

describe("every container of ours", () => {
	let box: Sandbox;
	beforeAll(async () => {
		box = await fleet.sandboxes.create("hard", { image, memory: MiB(128), pids: 64, cpus: 0.5 });
	});

	test("has the hardening, as the engine sees it", async () => {
		const { HostConfig: host, Config: config } = await inspect(box.id);
		expect(host).toMatchObject({
			Memory: MiB(128),
			MemorySwap: MiB(128),
			PidsLimit: 64,
			NanoCpus: 500_000_000,
			Init: true,
			Privileged: false,
			AutoRemove: false,
			CapDrop: ["ALL"],
			IpcMode: "private",
			PidMode: "",
			RestartPolicy: { Name: "no" },
			LogConfig: { Type: "none" },
			Ulimits: [{ Name: "core", Soft: 0, Hard: 0 }],
			Binds: null,
		});
		expect(host["CapAdd"] ?? []).toEqual([]);
		expect(host["SecurityOpt"]).toContain("no-new-privileges");
		const mounts = host["Mounts"] as { Source: string; Target: string; BindOptions?: { Propagation?: string } }[];
		expect(mounts.every((mount) => mount.BindOptions?.Propagation === "rprivate")).toBe(true);
		expect(mounts.some((mount) => mount.Source.endsWith(".sock"))).toBe(false);
		expect(config["User"]).toMatch(/^[1-9]\d*:\d+$/);
	});

	test("runs without capabilities, without new privileges and not as root", async () => {
		const { stdout } = await box.exec("grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status; id -u");
		expect(stdout).toMatch(/CapEff:\t0000000000000000/);
		expect(stdout).toMatch(/CapBnd:\t0000000000000000/);
		expect(stdout).toMatch(/NoNewPrivs:\t1/);
		expect(stdout).toMatch(/Seccomp:\t2/);
		expect(stdout.trim().split("\n").at(-1)).not.toBe("0");
	});

	test("holds a process that takes too much memory to its ceiling, swap included (T43)", async () => {
		const hog = await box.exec("head -c 200000000 /dev/zero | tail | wc -c");
		expect(hog.stdout.trim()).not.toBe("200000000");
		expect((await box.exec("echo usable")).stdout).toBe("usable\n");
		const small = await box.exec("head -c 20000000 /dev/zero | tail | wc -c");
		expect(small.stdout.trim()).toBe("20000000");
	});

	test("holds a fork bomb to its pids, and answers afterwards (T43)", async () => {
		const bomb = await box.exec("f(){ f|f& }; f; sleep 30", { timeoutMs: 2000 });
		expect(bomb.timedOut).toBe(true);
		expect((await docker("version", "--format", "{{.Server.Version}}")).length).toBeGreaterThan(0);
		expect((await box.exec("echo usable", { timeoutMs: 20_000 })).stdout).toBe("usable\n");
	});

	test("cannot write a core dump, nor the engine's log", async () => {
		await box.exec("ulimit -c; kill -SEGV $$");
		expect((await box.exec("ls")).stdout).not.toContain("core");
		await box.exec("head -c 1000000 /dev/zero > /proc/1/fd/1 || true");
		const path = await docker("inspect", "--format", "{{.LogPath}}", box.id);
		expect(path === "" || !existsSync(path)).toBe(true);
	});

	test("sees no proxy variables of the host (T38)", async () => {
		process.env["HTTP_PROXY"] = "http://127.0.0.1:9";
		try {
			const proxied = await fleet.again().create("through", { image, network: "none" });
			expect((await proxied.exec("env")).stdout).not.toMatch(/proxy/i);
		} finally {
			delete process.env["HTTP_PROXY"];
		}
	});
});

describe("networks", () => {
	test("the default is a bridge of this fleet's own, on which sandboxes do not reach one another", async () => {
		const [a, b] = await Promise.all([
			fleet.sandboxes.create("net-a", { image }),
			fleet.sandboxes.create("net-b", { image }),
		]);
		const networks = JSON.parse(
			await docker("inspect", "--format", "{{json .NetworkSettings.Networks}}", a.id),
		) as Record<string, { IPAddress: string }>;
		const [name = "", network] = Object.entries(networks)[0] ?? [];
		expect(name).toContain(fleet.prefix);
		const address = network?.IPAddress ?? "";
		const listen = a.exec(
			[
				"perl",
				"-MIO::Socket::INET",
				"-e",
				'my $s=IO::Socket::INET->new(Listen=>1,LocalPort=>7777) or die; my $c=$s->accept; print $c "hello"; close $c;',
			],
			{ timeoutMs: 6000 },
		);
		const knock = `perl -MIO::Socket::INET -e 'my $s=IO::Socket::INET->new(PeerAddr=>"${address}:7777",Timeout=>2) or exit 7; print <$s>'`;
		await a.exec("sleep 0.5");
		expect((await b.exec(knock)).exitCode).toBe(7);
		expect((await a.exec(knock.replace(address, "127.0.0.1"))).stdout).toBe("hello");
		await listen;
	});

	test("none has only loopback", async () => {
		const box = await fleet.sandboxes.create("net-none", { image, network: "none" });
		expect((await box.exec("ls /sys/class/net")).stdout.trim()).toBe("lo");
	});

	test("the network goes with the last sandbox of the fleet", async () => {
		const own = makeFleet();
		try {
			await own.sandboxes.create("a", { image });
			await own.sandboxes.create("b", { image });
			const count = async (): Promise<number> =>
				(await docker("network", "ls", "-q", "--filter", `label=sandboxes.prefix=${own.prefix}`))
					.split("\n")
					.filter(Boolean).length;
			expect(await count()).toBe(1);
			await own.sandboxes.remove("a");
			expect(await count()).toBe(1);
			await own.sandboxes.remove("b");
			expect(await count()).toBe(0);
			await own.sandboxes.create("a", { image });
			await own.sandboxes.stop("a");
			await docker(
				"network",
				"rm",
				(await docker("network", "ls", "-q", "--filter", `label=sandboxes.prefix=${own.prefix}`)).trim(),
			).catch(() => {});
			const back = await own.sandboxes.create("a", { image });
			expect((await back.exec("echo up")).stdout).toBe("up\n");
		} finally {
			await own.dispose();
		}
	});

	test("a published port is reached on the host's loopback", async () => {
		const box = await fleet.sandboxes.create("port", { image, ports: [8080] });
		const [port] = box.ports;
		expect(port).toMatchObject({ port: 8080, protocol: "tcp", hostIp: "127.0.0.1" });
		const serve = box.exec(
			[
				"perl",
				"-MIO::Socket::INET",
				"-e",
				'my $s=IO::Socket::INET->new(Listen=>1,LocalPort=>8080,ReuseAddr=>1) or die; my $c=$s->accept; <$c>; print $c "HTTP/1.0 200 OK\\r\\n\\r\\nhi"; close $c;',
			],
			{ timeoutMs: 15_000 },
		);
		await box.exec("sleep 0.5");
		const answer = await fetch(`http://127.0.0.1:${port?.hostPort}/`);
		expect(await answer.text()).toBe("hi");
		await serve;
	});
});

describe("root inside", () => {
	test("is an explicit choice that gets back exactly five capabilities", async () => {
		const box = await fleet.sandboxes.create("root", { image, user: "root" });
		const { HostConfig: host } = await inspect(box.id);
		expect([...(host["CapAdd"] as string[])].map((cap) => cap.replace(/^CAP_/, "")).sort()).toEqual([
			"CHOWN",
			"DAC_OVERRIDE",
			"FOWNER",
			"SETGID",
			"SETUID",
		]);
		expect((await box.exec("id -u; whoami; touch ~/x && echo $HOME")).stdout).toBe("0\nroot\n/home/sandbox\n");
		expect((await box.exec("useradd probe && chown probe /workspace && stat -c %U /workspace")).stdout.trim()).toBe(
			"probe",
		);
		expect((await box.exec("mount -t tmpfs none /mnt")).exitCode).not.toBe(0);
		expect(await fleet.sandboxes.remove("root")).toBe(true);
		expect(existsSync(box.workspaceDir)).toBe(false);
	});
});

describe("a read-only root", () => {
	test("keeps workspace, home and temporary directories writable, and nothing else", async () => {
		const box = await fleet.sandboxes.create("ro", { image, readOnlyRoot: true });
		const { stdout } = await box.exec(
			"for d in . ~ /tmp /var/tmp /run /usr/local /opt /etc; do touch $d/probe 2>/dev/null && echo $d; done",
		);
		expect(stdout.trim().split("\n")).toEqual([".", "/home/sandbox", "/tmp", "/var/tmp"]);
		expect((await box.exec("printf '#!/bin/sh\\necho ran' > /tmp/x && chmod +x /tmp/x && /tmp/x")).stdout).toBe(
			"ran\n",
		);
	});
});

describe("mounts", () => {
	test("are read-only unless said, and seen inside", async () => {
		const home = mkdtempSync(join(tmpdir(), "sandboxes-test-mount-"));
		chmodSync(home, 0o755);
		mkdirSync(join(home, "rw"));
		chmodSync(join(home, "rw"), 0o777);
		writeFileSync(join(home, "f"), "shared\n");
		try {
			const mounts = [
				{ source: home, target: "/data" },
				{ source: join(home, "rw"), target: "/out", readOnly: false },
			];
			const box = await fleet.sandboxes.create("mounts", { image, mounts });
			expect((await box.exec("cat /data/f; touch /data/g 2>/dev/null || echo refused; echo out > /out/o")).stdout).toBe(
				"shared\nrefused\n",
			);
			expect(readFileSync(join(home, "rw", "o"), "utf8")).toBe("out\n");
			expect((await fleet.sandboxes.create("mounts", { image, mounts: [...mounts].reverse() })).id).toBe(box.id);
			expect((await fleet.sandboxes.create("mounts", { image })).outcome).toBe("rebuilt");
		} finally {
			rmSync(home, { recursive: true });
		}
	});

	test("of the host, its kernel, the root or the engine's socket are refused before anything happens", async () => {
		for (const source of ["/", "/proc", "/sys", "/var/run/docker.sock", "/run", fleet.root]) {
			const error = await fleet.sandboxes
				.create("badmount", { image, mounts: [{ source, target: "/x" }] })
				.catch((thrown: unknown) => thrown);
			expect(isSandboxError(error, "invalid_input")).toBe(true);
		}
		expect((await fleet.sandboxes.list()).some(({ name }) => name === "badmount")).toBe(false);
	});
});

describe("whose files they are (T14, T15)", () => {
	test.skipIf(process.getuid?.() !== 0)(
		"a caller with an ordinary uid owns what the sandbox makes, and can remove everything, root's files too",
		async () => {
			for (const uid of [1000, 1001]) {
				const own = makeFleet({ owner: uid });
				const socket = statSync("/var/run/docker.sock");
				const mode = socket.mode & 0o777;
				chmodSync("/var/run/docker.sock", 0o666);
				try {
					const seen = await runProcess<Record<string, unknown>>("owner-life.ts", [own.root, own.prefix, image], {
						uid,
					});
					expect(seen).toMatchObject({
						uid,
						touched: `${uid}:${uid}`,
						who: `sandbox\n${uid}\n/home/sandbox\nok`,
						hostSees: uid,
						read: "from the hostfrom the hostmore",
						back: "from the hostmore\n",
						readOnlyTree: "ok",
						homeKept: ".probe",
						homeKeptByRebuild: ".probe",
						removed: true,
					});
					expect(own.directories()).toEqual([]);
				} finally {
					chmodSync("/var/run/docker.sock", mode);
					await own.dispose();
				}
			}
		},
	);

	test.skipIf(process.getuid?.() !== 0)(
		"a caller who is root gets an unprivileged user that can write, and the same removal",
		async () => {
			const seen = await runProcess<Record<string, unknown>>("owner-life.ts", [fleet.root, `${fleet.prefix}-r`, image]);
			expect(seen).toMatchObject({
				uid: 0,
				touched: "20001:20001",
				who: "sandbox\n20001\n/home/sandbox\nok",
				hostSees: 20_001,
				homeKept: ".probe",
				homeKeptByRebuild: ".probe",
				removed: true,
			});
		},
	);

	test.skipIf(process.getuid?.() !== 0)(
		"what is mounted below a workspace is never deleted, whoever removes it",
		async () => {
			const { execFileSync } = await import("node:child_process");
			const precious = mkdtempSync(join(tmpdir(), "sandboxes-test-precious-"));
			writeFileSync(join(precious, "f"), "precious");
			const own = makeFleet({ owner: 1001 });
			const mode = statSync("/var/run/docker.sock").mode & 0o777;
			chmodSync("/var/run/docker.sock", 0o666);
			let mounted = "";
			try {
				const words = (step: string): string[] => [own.root, own.prefix, step];
				const { dir } = await runProcess<{ dir: string }>("mounted-below.ts", words("make"), { uid: 1001 });
				mounted = join(dir, "m");
				execFileSync("mount", ["--bind", precious, mounted]);
				const { code } = await runProcess<{ code: string }>("mounted-below.ts", words("remove"), { uid: 1001 });
				expect(code).toBe("workspace_unusable");
				expect(readFileSync(join(precious, "f"), "utf8")).toBe("precious");
				const table = readFileSync("/proc/mounts", "utf8").split("\n");
				mounted = table.map((line) => line.split(" ")[1] ?? "").find((target) => target.startsWith(own.root)) ?? "";
				execFileSync("umount", [mounted]);
				mounted = "";
				expect((await runProcess<{ code: string }>("mounted-below.ts", words("remove"), { uid: 1001 })).code).toBe(
					"true",
				);
			} finally {
				if (mounted) execFileSync("umount", ["-l", mounted]);
				chmodSync("/var/run/docker.sock", mode);
				rmSync(precious, { recursive: true });
				await own.dispose();
			}
		},
	);

	test.skipIf(process.getuid?.() !== 0)(
		"a change of user gives all files to the new one; where it fails, to the old one again",
		async () => {
			const box = await fleet.sandboxes.create("user", { image });
			await box.exec("umask 077; mkdir d; echo kept > d/f; echo kept > ~/h");
			const check = "cat d/f ~/h && touch d/new ~/new && whoami";
			const failing = [
				{ image, user: "30000:30000", ociRuntime: "nosuch" },
				{ image, user: "30000:30000", ports: [{ port: 80, hostPort: 48_124 }] },
			] as const;
			const holder = await fleet.sandboxes.create("user-port", { image, ports: [{ port: 80, hostPort: 48_124 }] });
			for (const options of failing) {
				const error = await fleet.sandboxes.create("user", options).catch((thrown: unknown) => thrown);
				expect(isSandboxError(error, "engine_failed")).toBe(true);
				expect((await box.exec(check)).stdout).toBe("kept\nkept\nsandbox\n");
				await box.stop();
				expect((await fleet.sandboxes.create("user", { image })).id).toBe(box.id);
				expect((await box.exec(check)).stdout).toBe("kept\nkept\nsandbox\n");
			}
			await fleet.sandboxes.remove(holder.name);
			const changed = await fleet.sandboxes.create("user", { image, user: "30000:30000" });
			expect(changed.outcome).toBe("rebuilt");
			expect((await changed.exec(`${check}; stat -c %u d/f`)).stdout).toBe("kept\nkept\nsandbox\n30000\n");
		},
	);

	test("a workspace of 3,000 levels and one of 20,000 entries are removed", async () => {
		const box = await fleet.sandboxes.create("deep", { image });
		const made = await box.exec([
			"perl",
			"-e",
			'for (1..3000) { mkdir "d" or die $!; chdir "d" or die $!; } print "ok"',
		]);
		expect(made.stdout).toBe("ok");
		await box.exec(["perl", "-e", 'mkdir "wide"; for (1..20000) { open my $f, ">", "wide/$_" or die $! }']);
		expect(await fleet.sandboxes.remove("deep")).toBe(true);
		expect(existsSync(box.workspaceDir)).toBe(false);
		expect(fleet.directories().filter((name) => name.startsWith("trash"))).toEqual([]);
	});
});

test("a new object over a root that another process made opens it as it is", () => {
	expect(new Sandboxes({ root: fleet.root }).root).toBe(fleet.root);
	for (const root of ["", "/", "a\0b"]) expect(() => new Sandboxes({ root })).toThrow(/root/);
});

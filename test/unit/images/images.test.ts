import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { BuildSpec, ProgressOptions } from "../../../src/engine/engine.js";
import { Images } from "../../../src/images/images.js";
import { pullImage } from "../../../src/images/pull-image.js";
import { parseReference } from "../../../src/images/reference.js";
import { SandboxError } from "../../../src/primitives/errors.js";
import { StubEngine } from "./stub-engine.js";

let directory: string;
let stub: StubEngine;
let images: Images;

beforeEach(() => {
	directory = mkdtempSync(join(tmpdir(), "images-"));
	put("node/Dockerfile", "FROM a\n");
	put("python/Dockerfile", "FROM b\n");
	stub = new StubEngine();
	images = openImages();
});
afterEach(() => {
	rmSync(directory, { recursive: true, force: true });
});

function put(path: string, text: string): void {
	mkdirSync(join(directory, "catalog", path, ".."), { recursive: true });
	writeFileSync(join(directory, "catalog", path), text);
}

function openImages(): Images {
	return new Images({
		engine: stub.asEngine(),
		catalog: join(directory, "catalog"),
		cacheDirectory: join(directory, "cache"),
	});
}

function refusal(reason: string): SandboxError {
	return new SandboxError("image_unavailable", reason, { details: { reference: "x", reason } });
}

describe("a runtime becomes an image", () => {
	test("an absent one is built once for all who ask, under a tag of its content", async () => {
		const messages: string[] = [];
		stub.onBuild = async (_, { onProgress }) => onProgress?.({ stage: "build", message: "Step 1/1 : FROM a" });
		const resolved = await Promise.all(
			Array.from({ length: 5 }, () =>
				images.resolve({ runtime: "node" }, { onProgress: ({ message }) => messages.push(message) }),
			),
		);
		expect(stub.calls.filter((call) => call === "buildImage")).toHaveLength(1);
		expect(new Set(resolved.map(({ imageId }) => imageId)).size).toBe(1);
		expect(resolved[0]?.reference).toMatch(/^sandboxes-node:[0-9a-f]{16}$/);
		expect(messages.filter((message) => message.startsWith("Step"))).toHaveLength(5);
		expect([...stub.images.values()][0]?.labels).toEqual({
			"sandboxes.runtime": "node",
			"sandboxes.content": expect.stringMatching(/^[0-9a-f]{64}$/),
		});
	});

	test("one that is there costs exactly one call, in a new process too", async () => {
		await images.resolve({ runtime: "node" });
		for (const opened of [images, openImages()]) {
			stub.calls.length = 0;
			await opened.resolve({ runtime: "node" });
			expect(stub.calls).toEqual(["inspectImage"]);
		}
	});

	test("an edited Dockerfile is another tag and another image", async () => {
		const before = await images.resolve({ runtime: "node" });
		put("node/Dockerfile", "FROM a\nENV X=1\n");
		const after = await images.resolve({ runtime: "node" });
		expect(after.reference).not.toBe(before.reference);
		expect(after.imageId).not.toBe(before.imageId);
	});

	test("an unknown one is refused before any call", async () => {
		await expect(images.resolve({ runtime: "nod" })).rejects.toMatchObject({ code: "invalid_input" });
		expect(stub.calls).toEqual([]);
	});

	test("a failed build leaves no tag, and the next call builds again", async () => {
		stub.onBuild = async ({ tag }) => {
			throw new SandboxError("image_build_failed", "no", { details: { reference: tag, step: "RUN false", log: "" } });
		};
		await expect(images.build("node")).rejects.toMatchObject({ code: "image_build_failed" });
		expect(stub.images.size).toBe(0);
		stub.onBuild = async () => {};
		expect((await images.build("node")).runtime).toBe("node");
	});

	test("a base image that cannot be had comes with what to do", async () => {
		stub.onBuild = async ({ tag }) => {
			const details = { reference: tag, step: "Step 1/2 : FROM a", log: "pull access denied" };
			throw new SandboxError("image_build_failed", "no", { details });
		};
		await expect(images.build("node")).rejects.toMatchObject({ hint: expect.stringContaining("BASE_IMAGE") });
	});

	test("a file that may not be read is a failed build that names it, before any call", async () => {
		put("node/secret", "s");
		chmodSync(join(directory, "catalog/node/secret"), 0);
		for (const path of ["", "catalog", "catalog/node"]) chmodSync(join(directory, path), 0o755);
		const uid = process.geteuid?.();
		if (uid === 0) process.seteuid?.(65534);
		try {
			await expect(images.build("node")).rejects.toMatchObject({
				code: "image_build_failed",
				message: expect.stringContaining("catalog/node/secret"),
			});
		} finally {
			if (uid === 0) process.seteuid?.(0);
		}
		expect(stub.calls).toEqual([]);
	});

	test("a context that breaks while it is sent ends the build, though the engine waits on", async () => {
		put("node/big", "x".repeat(1_000_000));
		const engine = stub.asEngine();
		const waiting = new Proxy(engine, {
			get: (target, name) =>
				name === "buildImage"
					? ({ context }: BuildSpec, { signal }: ProgressOptions) => {
							rmSync(join(directory, "catalog/node/big"));
							context.resume();
							return new Promise((_resolve, reject) => {
								signal?.addEventListener("abort", () => reject(signal.reason));
							});
						}
					: Reflect.get(target, name, target),
		});
		const broken = new Images({ engine: waiting, catalog: join(directory, "catalog") });
		await expect(broken.build("node")).rejects.toMatchObject({
			code: "image_build_failed",
			message: expect.stringContaining("node/big"),
		});
	});

	test("a cache directory that cannot be used keeps nobody from building", async () => {
		writeFileSync(join(directory, "cache"), "a file where the directory would be");
		expect((await images.build("node")).built).toBe(true);
		expect((await images.facts([...stub.images.values()][0]?.id ?? "")).libc).toBe("unknown");
	});

	test("a caller who gives up rejects with their reason and stops the build", async () => {
		const controller = new AbortController();
		let stopped = false;
		stub.onBuild = (_, { signal }) =>
			new Promise((_resolve, reject) => {
				signal?.addEventListener("abort", () => {
					stopped = true;
					reject(signal.reason);
				});
				controller.abort(new Error("enough"));
			});
		await expect(images.build("node", { signal: controller.signal })).rejects.toThrow("enough");
		expect(stopped).toBe(true);
		expect(stub.images.size).toBe(0);
	});

	test("looking for one builds nothing", async () => {
		expect(await images.find({ runtime: "node" })).toBeUndefined();
		const built = await images.resolve({ runtime: "node" });
		expect(await images.find({ runtime: "node" })).toEqual(built);
		expect(stub.calls.filter((call) => call === "buildImage")).toHaveLength(1);
	});

	test("what is wanted can be checked without a call", () => {
		images.check({ runtime: "node" });
		images.check({ image: "a/b:1" });
		expect(() => images.check({ runtime: "noode" })).toThrow('"node"');
		expect(() => images.check({ image: "A/b" })).toThrow("lower case");
		expect(stub.calls).toEqual([]);
	});

	test("the list shows every runtime, and what is built of it, in one call", async () => {
		const built = await images.build("node");
		stub.add("sandboxes-python:old", { labels: { "sandboxes.runtime": "python" } });
		stub.calls.length = 0;
		expect(await images.list()).toEqual([
			{
				runtime: "node",
				reference: built.reference,
				built: true,
				imageId: built.imageId,
				sizeBytes: 1000,
				createdAtMs: 0,
			},
			{ runtime: "python", reference: expect.stringMatching(/^sandboxes-python:[0-9a-f]{16}$/), built: false },
		]);
		expect(stub.calls).toEqual(["listImages"]);
	});
});

describe("a reference becomes an image", () => {
	test("one that is there is not pulled, however it was written", async () => {
		const { id } = stub.add("busybox:latest");
		expect(await images.resolve({ image: "docker.io/library/busybox" })).toEqual({
			imageId: id,
			reference: "docker.io/library/busybox",
		});
		expect(stub.calls).not.toContain("pullImage");
		expect((await images.resolve({ image: id })).imageId).toBe(id);
	});

	test("an absent one is pulled once for all who ask", async () => {
		const resolved = await Promise.all(Array.from({ length: 5 }, () => images.resolve({ image: "a/b:1" })));
		expect(stub.calls.filter((call) => call === "pullImage")).toHaveLength(1);
		expect(new Set(resolved.map(({ imageId }) => imageId)).size).toBe(1);
	});

	test.each(["", "UPPER/bad", "a@sha256:short"])("%j is refused before any call", async (image) => {
		await expect(images.resolve({ image })).rejects.toMatchObject({ code: "invalid_input" });
		expect(stub.calls).toEqual([]);
	});

	test.each<[string, () => Error]>([
		["refused by the registry", () => refusal("manifest unknown")],
		[
			"refused by the engine",
			() =>
				new SandboxError("engine_failed", "manifest unknown", {
					details: { status: 500, failure: "server_error", call: "pull" },
				}),
		],
	])("a pull that is %s names the reference and the reason", async (_, failure) => {
		stub.onPull = async () => {
			throw failure();
		};
		await expect(images.resolve({ image: "no/such:1" })).rejects.toMatchObject({
			code: "image_unavailable",
			message: expect.stringMatching(/no\/such:1 .*manifest unknown/),
			details: { reference: "no/such:1", reason: "manifest unknown" },
		});
	});

	test("an id that is not there is not pulled", async () => {
		await expect(images.resolve({ image: `sha256:${"0".repeat(64)}` })).rejects.toMatchObject({
			code: "image_unavailable",
		});
		expect(stub.calls).not.toContain("pullImage");
	});

	test("a registry that says nothing is given up", async () => {
		const reference = parseReference("silent.example/a");
		stub.onPull = (_, { signal }) =>
			new Promise((_resolve, reject) => {
				signal?.addEventListener("abort", () => reject(signal.reason));
			});
		const work = { signal: new AbortController().signal, onProgress: () => {} };
		await expect(pullImage(stub.asEngine(), reference, "silent.example/a", work, 10)).rejects.toMatchObject({
			code: "image_unavailable",
			message: expect.stringContaining("no word from the registry"),
		});
	});
});

describe("an image of another platform", () => {
	test("is refused with both platforms", async () => {
		stub.add("arm:1", { architecture: "arm64" });
		await expect(images.resolve({ image: "arm:1" })).rejects.toMatchObject({
			code: "unsupported",
			message: expect.stringMatching(/arm:1 .*linux\/arm64.*linux\/amd64/),
		});
	});

	test("is accepted when the engine at this address has become one of that platform", async () => {
		stub.add("amd:1");
		await images.resolve({ image: "amd:1" });
		stub.platform = { os: "linux", architecture: "arm64" };
		stub.add("arm:1", { architecture: "arm64" });
		expect((await openImages().resolve({ image: "arm:1" })).reference).toBe("arm:1");
	});

	test.each([
		["386", ""],
		["", ""],
	])("one that runs all the same is accepted: %j", async (architecture) => {
		stub.add("x:1", { architecture, os: architecture && "linux" });
		expect((await images.resolve({ image: "x:1" })).reference).toBe("x:1");
	});
});

describe("what is inside an image", () => {
	const debian = {
		"/etc/passwd": "root:x:0:0::/root:/bin/sh\n",
		"/etc/group": "root:x:0:\n",
		"/bin/sh": { to: "/usr/bin/dash" },
		"/usr/bin/dash": "",
		"/lib/x86_64-linux-gnu/libc.so.6": "",
		"/lib64/ld-linux-x86-64.so.2": "",
	};

	test("is read once, and from the cache in the next process", async () => {
		const { id } = stub.add("debian:1");
		stub.files = debian;
		const facts = { passwd: debian["/etc/passwd"], group: debian["/etc/group"], libc: "glibc", hasShell: true };
		expect(await Promise.all([images.facts(id), images.facts(id)])).toEqual([facts, facts]);
		expect(stub.calls.filter((call) => call === "createContainer")).toHaveLength(1);
		stub.calls.length = 0;
		expect(await openImages().facts(id)).toEqual(facts);
		expect(stub.calls).toEqual([]);
		expect(stub.containers.size).toBe(0);
	});

	test("is read again when the cached file is damaged", async () => {
		const { id } = stub.add("debian:1");
		stub.files = debian;
		await images.facts(id);
		for (const damage of ["", "{", "null", '{"form":1}', '{"form":2,"libc":"glibc"}']) {
			for (const name of readdirSync(join(directory, "cache"))) writeFileSync(join(directory, "cache", name), damage);
			expect((await openImages().facts(id)).libc).toBe("glibc");
		}
	});

	test.each<[string, StubEngine["files"], { libc: string; hasShell: boolean }]>([
		["nothing", {}, { libc: "unknown", hasShell: false }],
		["musl", { "/lib/ld-musl-x86_64.so.1": "", "/bin/sh": "" }, { libc: "musl", hasShell: true }],
		[
			"musl with glibc's loader on top",
			{ "/lib/ld-musl-x86_64.so.1": "", "/lib64/ld-linux-x86-64.so.2": "" },
			{ libc: "musl", hasShell: false },
		],
		["a shell that leads nowhere", { "/bin/sh": { to: "gone" } }, { libc: "unknown", hasShell: false }],
		[
			"a shell that leads to itself",
			{ "/bin/sh": { to: "bash" }, "/bin/bash": { to: "sh" } },
			{ libc: "unknown", hasShell: false },
		],
	])("%s", async (_, files, expected) => {
		const { id } = stub.add("x:1");
		stub.files = files;
		expect(await images.facts(id)).toEqual({ passwd: "", group: "", ...expected });
	});

	test("leaves no container when reading fails or is given up", async () => {
		const { id } = stub.add("x:1");
		const engine = stub.asEngine();
		const controller = new AbortController();
		const failing = new Proxy(engine, {
			get: (target, name) =>
				name === "statContainerPath"
					? async () => {
							controller.abort(new Error("enough"));
							throw new Error("broken");
						}
					: Reflect.get(target, name, target),
		});
		const broken = new Images({ engine: failing, catalog: join(directory, "catalog") });
		await expect(broken.facts(id)).rejects.toThrow("broken");
		await expect(broken.facts(id, { signal: controller.signal })).rejects.toThrow("enough");
		expect(stub.containers.size).toBe(0);
	});

	test("of one that was removed meanwhile is a typed error", async () => {
		await expect(images.facts("sha256:gone")).rejects.toMatchObject({ code: "image_unavailable" });
	});
});

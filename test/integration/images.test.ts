import { execFile, spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { pack } from "tar-stream";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { connectEngine } from "../../src/engine/docker-engine.js";
import type { ContainerSummary, Engine } from "../../src/engine/engine.js";
import { FACTS_LABELS } from "../../src/images/image-facts.js";
import { type ImageInfo, Images } from "../../src/images/images.js";
import type { Progress } from "../../src/primitives/progress.js";

const DEBIAN = "debian:bookworm-slim";
const run = promisify(execFile);
/** Part of every name here, so that runs do not meet and what is left can be told. */
const mark = `imgtest${randomBytes(4).toString("hex")}`;

let engine: Engine;
let directory: string;
let images: Images;

beforeAll(async () => {
	engine = connectEngine();
	await engine.ping();
});
beforeEach(() => {
	directory = mkdtempSync(join(tmpdir(), `${mark}-`));
	put("Dockerfile", `FROM ${DEBIAN}\n`);
	images = openImages();
});
afterEach(async () => {
	rmSync(directory, { recursive: true, force: true });
	for (const { id, tags } of await engine.listImages({ "sandboxes.runtime": mark }))
		for (const reference of tags.length > 0 ? tags : [id]) await engine.removeImage(reference);
});
afterAll(async () => {
	expect(await containersToLookIn()).toEqual([]);
});

function put(path: string, text: string): void {
	mkdirSync(join(directory, "context", path, ".."), { recursive: true });
	writeFileSync(join(directory, "context", path), text);
}

function openImages(): Images {
	return new Images({
		engine,
		custom: { [mark]: join(directory, "context") },
		cacheDirectory: join(directory, "cache"),
	});
}

/** What there is of the runtime under test: one tag for each content it was built from. */
async function tags(): Promise<string[]> {
	return (await engine.listImages({ "sandboxes.runtime": mark })).flatMap((image) => [...image.tags]);
}

/** The containers made to look into images of ours: an image's labels are on its containers as well. */
async function containersToLookIn(): Promise<ContainerSummary[]> {
	return engine.listContainers({ ...FACTS_LABELS, "sandboxes.runtime": mark });
}

/** Builds the runtime under test in a process of its own. */
async function buildInProcess(): Promise<ImageInfo> {
	const source = (path: string): string => JSON.stringify(join(import.meta.dirname, "../../src", path));
	const program = `
		import { connectEngine } from ${source("engine/docker-engine.ts")};
		import { Images } from ${source("images/images.ts")};
		const [runtime, context, cacheDirectory] = process.argv.slice(1);
		const images = new Images({ engine: connectEngine(), custom: { [runtime]: context }, cacheDirectory });
		console.log(JSON.stringify(await images.build(runtime)));`;
	const node = ["--import", "tsx", "--input-type=module", "--eval", program];
	const words = [mark, join(directory, "context"), join(directory, "cache")];
	const { stdout } = await run(process.execPath, [...node, "--", ...words]);
	return JSON.parse(stdout) as ImageInfo;
}

/** The output of a command in a container of the image. */
async function runIn(image: string, ...command: string[]): Promise<string> {
	const { stdout } = await run("docker", ["run", "--rm", "--network", "none", "--label", mark, image, ...command]);
	return stdout.trim();
}

describe("building a runtime", () => {
	test("an absent one is built with progress, once for several callers, and found by the next process", async () => {
		put("Dockerfile", `FROM ${DEBIAN}\nCOPY hello /hello\n`);
		put("hello", `hello ${mark}`);
		const progress: Progress[] = [];
		const all = await Promise.all(
			Array.from({ length: 3 }, () => images.resolve({ runtime: mark }, { onProgress: (line) => progress.push(line) })),
		);
		expect(new Set(all.map(({ imageId }) => imageId)).size).toBe(1);
		expect(all[0]?.imageId).toMatch(/^sha256:[0-9a-f]{64}$/);
		expect(await tags()).toEqual([all[0]?.reference]);
		expect(progress.filter(({ message }) => message.includes("COPY hello"))).toHaveLength(3);
		expect(await runIn(all[0]?.reference ?? "", "cat", "/hello")).toBe(`hello ${mark}`);
		expect(await openImages().resolve({ runtime: mark })).toEqual(all[0]);
	});

	test("an edited Dockerfile is another identity, and the older image still stands", async () => {
		const before = await images.build(mark);
		put("Dockerfile", `FROM ${DEBIAN}\nENV EDITED=${mark}\n`);
		const after = await images.build(mark);
		expect(after.imageId).not.toBe(before.imageId);
		expect((await engine.inspectImage(before.reference))?.id).toBe(before.imageId);
		expect((await images.list()).find(({ runtime }) => runtime === mark)).toEqual(after);
	});

	test("build arguments reach the Dockerfile", async () => {
		put("Dockerfile", `ARG BASE_IMAGE=nosuch-${mark}\nFROM \${BASE_IMAGE}\nARG WORD\nENV WORD=\${WORD}\n`);
		const custom = {
			[mark]: { context: join(directory, "context"), buildArgs: { BASE_IMAGE: DEBIAN, WORD: "told" } },
		};
		const { reference } = await new Images({ engine, custom }).build(mark);
		expect((await engine.inspectImage(reference))?.env).toMatchObject({ WORD: "told" });
	});

	test("processes that build the same at once get one identity", async () => {
		put("Dockerfile", `FROM ${DEBIAN}\nRUN sleep 1; echo ${mark} > /made\n`);
		const built = await Promise.all([buildInProcess(), buildInProcess(), buildInProcess()]);
		expect(new Set(built.map(({ imageId }) => imageId)).size).toBe(1);
		expect(await tags()).toEqual([built[0]?.reference]);
	});

	test("two that cannot see each other's lock both succeed", async () => {
		put("Dockerfile", `FROM ${DEBIAN}\nRUN sleep 1; echo ${mark} > /made\n`);
		const custom = { [mark]: join(directory, "context") };
		const [one, other] = await Promise.all([1, 2].map(() => new Images({ engine, custom }).build(mark)));
		expect(one?.reference).toBe(other?.reference);
		expect(await tags()).toEqual([one?.reference]);
	});

	test("a caller who gives up stops the build, and nothing is tagged", async () => {
		put("Dockerfile", `FROM ${DEBIAN}\nRUN echo ${mark}; sleep 60\n`);
		const controller = new AbortController();
		const reason = new Error("enough");
		const building = images.build(mark, {
			signal: controller.signal,
			onProgress: ({ message }) => {
				if (message.includes("sleep 60")) controller.abort(reason);
			},
		});
		await expect(building).rejects.toBe(reason);
		expect(await tags()).toEqual([]);
	});
});

describe("a build that fails", () => {
	const failing: Record<string, { dockerfile: string; files?: Record<string, string>; says: RegExp[] }> = {
		"a command that fails": {
			dockerfile: `FROM ${DEBIAN}\nRUN echo why-${mark} >&2; exit 3\n`,
			says: [new RegExp(`why-${mark}`), /RUN echo why/],
		},
		"a command that fails after it claimed success": {
			dockerfile: `FROM ${DEBIAN}\nRUN echo Successfully built 0123456789ab; echo Successfully tagged ${mark}; exit 3\n`,
			says: [/Successfully built/, /exit 3/],
		},
		"a file that is missing": { dockerfile: `FROM ${DEBIAN}\nCOPY missing-${mark} /x\n`, says: [/missing-/, /COPY/] },
		"a file that .dockerignore hides": {
			dockerfile: `FROM ${DEBIAN}\nCOPY needed /x\n`,
			files: { needed: "x", ".dockerignore": "need*\n" },
			says: [/needed/, /COPY/],
		},
		"an instruction that does not exist": { dockerfile: `FROM ${DEBIAN}\nRUNN ls\n`, says: [/RUNN/i] },
		"an empty Dockerfile": { dockerfile: "", says: [/empty/] },
		"a base image that cannot be had": { dockerfile: `FROM localhost:1/nosuch-${mark}:1\n`, says: [/localhost:1/] },
	};

	test.each(Object.entries(failing))(
		"because of %s tells so, and tags nothing",
		async (_, { dockerfile, files, says }) => {
			put("Dockerfile", dockerfile);
			for (const [path, text] of Object.entries(files ?? {})) put(path, text);
			const error = await images.resolve({ runtime: mark }).then(
				() => undefined,
				(thrown: unknown) => thrown,
			);
			expect(error).toMatchObject({ code: "image_build_failed" });
			const { message, details } = error as { message: string; details: { log: string; step?: string } };
			for (const saying of says) expect(`${message}\n${details.step}\n${details.log}`).toMatch(saying);
			expect(await tags()).toEqual([]);
		},
	);

	test("leaves the older good image as it was, and mends with the Dockerfile", async () => {
		const good = await images.build(mark);
		put("Dockerfile", `FROM ${DEBIAN}\nRUN false ${mark}\n`);
		await expect(images.build(mark)).rejects.toMatchObject({ code: "image_build_failed" });
		expect(await tags()).toEqual([good.reference]);
		put("Dockerfile", `FROM ${DEBIAN}\n`);
		expect(await images.build(mark)).toEqual(good);
	});

	test("an unreadable file is named", async () => {
		put("locked", "x");
		chmodSync(join(directory, "context/locked"), 0);
		for (const path of [directory, join(directory, "context")]) chmodSync(path, 0o755);
		const uid = process.geteuid?.();
		if (uid === 0) process.seteuid?.(65534);
		try {
			await expect(images.build(mark)).rejects.toMatchObject({
				code: "image_build_failed",
				message: expect.stringContaining("context/locked"),
			});
		} finally {
			if (uid === 0) process.seteuid?.(0);
		}
	});

	test("a large folder that is ignored is neither read nor sent", async () => {
		put("big/file", "");
		truncateSync(join(directory, "context/big/file"), 1024 ** 3);
		put(".dockerignore", "big\n");
		put("Dockerfile", `FROM ${DEBIAN}\nCOPY . /context\n`);
		const startedAt = performance.now();
		const { reference } = await images.build(mark);
		expect(performance.now() - startedAt).toBeLessThan(15_000);
		expect(await runIn(reference, "ls", "-A", "/context")).not.toContain("big");
	});
});

describe("an image that is not there", () => {
	test.each([[`nosuch-${mark}:1`], ["localhost:1/x/y:z"], [`localhost:1/x@sha256:${"0".repeat(64)}`]])(
		"%s is one clear error, the same for all who ask",
		async (image) => {
			const startedAt = performance.now();
			const settled = await Promise.allSettled(Array.from({ length: 5 }, () => images.resolve({ image })));
			expect(performance.now() - startedAt).toBeLessThan(45_000);
			for (const one of settled) {
				expect(one).toMatchObject({
					status: "rejected",
					reason: {
						code: "image_unavailable",
						message: expect.stringContaining(image),
						details: { reference: image, reason: expect.stringMatching(/\w{5}/) },
					},
				});
			}
			if (image.startsWith("localhost"))
				expect(settled[0]).toMatchObject({ reason: { message: expect.stringContaining("refused") } });
		},
	);

	test("a bad reference is refused, whatever the engine", async () => {
		for (const image of ["", "UPPER/bad", "a@sha256:short"])
			await expect(images.resolve({ image })).rejects.toMatchObject({ code: "invalid_input" });
	});

	test("an image that is there is found by name, by tag and by id", async () => {
		const byName = await images.resolve({ image: DEBIAN });
		for (const image of [`docker.io/library/${DEBIAN}`, byName.imageId])
			expect(await images.resolve({ image })).toEqual({ imageId: byName.imageId, reference: image });
	});
});

describe("an image of another platform", () => {
	test("is refused with both platforms", async () => {
		const { architecture } = await engine.info();
		const other = architecture === "arm64" ? "amd64" : "arm64";
		const tag = `${mark}-other:1`;
		await loadForeign(tag, other);
		try {
			await expect(images.resolve({ image: tag })).rejects.toMatchObject({
				code: "unsupported",
				message: expect.stringMatching(new RegExp(`${tag}.*linux/${other}.*linux/${architecture}`)),
			});
		} finally {
			await engine.removeImage(tag);
		}
	});
});

describe("what is inside an image", () => {
	test("accounts, C library and shell of a Debian whose /bin is a link", async () => {
		const { imageId } = await images.resolve({ image: DEBIAN });
		const facts = await images.facts(imageId);
		expect(facts.passwd).toMatch(/^root:x:0:0:/m);
		expect(facts.group).toMatch(/^root:x:0:/m);
		expect(facts).toMatchObject({ libc: "glibc", hasShell: true });
		expect(await openImages().facts(imageId)).toEqual(facts);
	});

	test("an image of nothing has no accounts, no C library and no shell", async () => {
		put("Dockerfile", "FROM scratch\nCOPY Dockerfile /\n");
		const { imageId } = await images.resolve({ runtime: mark });
		expect(await images.facts(imageId)).toEqual({ passwd: "", group: "", libc: "unknown", hasShell: false });
	});

	test("looking in leaves no container, also when it is given up", async () => {
		const { imageId } = await images.resolve({ runtime: mark });
		const controller = new AbortController();
		const looking = images.facts(imageId, { signal: controller.signal });
		setTimeout(() => controller.abort(new Error("enough")), 5);
		await looking.catch((error: unknown) => expect(error).toMatchObject({ message: "enough" }));
		await expect.poll(containersToLookIn, { timeout: 10_000 }).toEqual([]);
		expect(await openImages().facts(imageId)).toMatchObject({ libc: "glibc" });
		expect(await containersToLookIn()).toEqual([]);
	});
});

describe("the shipped runtimes", () => {
	test("the same folder under another path and user is the same tag", async () => {
		const { context } = shipped("node");
		cpSync(context, join(directory, "context"), { recursive: true, preserveTimestamps: false });
		const [own] = (await openImages().list()).filter(({ runtime }) => runtime === mark);
		const [node] = (await openImages().list()).filter(({ runtime }) => runtime === "node");
		expect(own?.reference.split(":")[1]).toBe(node?.reference.split(":")[1]);
	});

	test("no Dockerfile needs more than the classic builder of the oldest engine", async () => {
		const { stdout } = await run(
			"cat",
			images.runtimes().flatMap((name) => (name === mark ? [] : [shipped(name).file])),
		);
		expect(stdout).toMatch(/^ARG BASE_IMAGE=/m);
		expect(stdout).not.toMatch(/^# *syntax=|<<[A-Z-]|--mount=|--chmod=|--link/im);
	});
});

function shipped(runtime: string): { context: string; file: string } {
	const context = join(import.meta.dirname, "../../images", runtime);
	return { context, file: join(context, "Dockerfile") };
}

/** Puts an image of one empty layer, said to be of that architecture, under the tag. */
async function loadForeign(tag: string, architecture: string): Promise<void> {
	const layer = Buffer.alloc(1024);
	const digest = createHash("sha256").update(layer).digest("hex");
	const config = JSON.stringify({
		architecture,
		os: "linux",
		config: {},
		created: "2020-01-01T00:00:00Z",
		rootfs: { type: "layers", diff_ids: [`sha256:${digest}`] },
	});
	const archive = pack();
	archive.entry({ name: "config.json" }, config);
	archive.entry({ name: "layer.tar" }, layer);
	archive.entry(
		{ name: "manifest.json" },
		JSON.stringify([{ Config: "config.json", RepoTags: [tag], Layers: ["layer.tar"] }]),
	);
	archive.finalize();
	const load = spawn("docker", ["load"], { stdio: ["pipe", "ignore", "inherit"] });
	const ended = new Promise<number | null>((resolve) => load.on("close", resolve));
	for await (const chunk of archive) load.stdin.write(chunk);
	load.stdin.end();
	expect(await ended).toBe(0);
}

/** The contract of an engine: one suite that every implementation passes. */
import { describe, expect, test } from "vitest";
import type { Progress } from "../../src/primitives/progress.js";
import { containerContract } from "./container-contract.js";
import {
	contextOf,
	createdContainer,
	expectFailure,
	freshName,
	runningContainer,
	type Subject,
	specOf,
	useSubject,
} from "./contract-subject.js";
import { execContract } from "./exec-contract.js";

export function engineContract(title: string, open: () => Promise<Subject>): void {
	describe(title, () => {
		selfContract(open);
		containerContract(open);
		execContract(open);
		imageContract(open);
		networkContract(open);
	});
}

function selfContract(open: () => Promise<Subject>): void {
	const subject = useSubject(open);
	const engine = () => subject().engine;

	test("it answers, and tells what it is", async () => {
		await engine().ping();
		const info = await engine().info();
		expect(info).toMatchObject({
			os: "linux",
			cpus: expect.any(Number),
			cgroupVersion: expect.stringMatching(/^[12]$/),
		});
		expect(info.id).not.toBe("");
		expect(info.memoryBytes).toBeGreaterThan(0);
		expect(info.ociRuntimes.length).toBeGreaterThan(0);
		expect(info.apiVersion).toMatch(/^\d+\.\d+$/);
		expect(info.architecture).toBe((await engine().inspectImage(subject().image))?.architecture);
	});

	test("a call whose signal has aborted rejects with the signal's own reason and does nothing", async () => {
		const reason = new Error("the caller has had enough");
		const options = { signal: AbortSignal.abort(reason) };
		const spec = specOf(subject());
		const labels = subject().labels;
		const sink = { onStdout() {}, onStderr() {} };
		const id = await createdContainer(subject());
		for (const attempt of [
			() => engine().ping(options),
			() => engine().info(options),
			() => engine().createContainer(spec, options),
			() => engine().inspectContainer(id, options),
			() => engine().listContainers(labels, options),
			() => engine().startContainer(id, options),
			() => engine().stopContainer(id, 1000, options),
			() => engine().pauseContainer(id, options),
			() => engine().unpauseContainer(id, options),
			() => engine().renameContainer(id, freshName(subject()), options),
			() => engine().removeContainer(id, options),
			() => engine().readContainerFile(id, "/etc/os-release", options),
			() => engine().statContainerPath(id, "/etc", options),
			() => engine().exec(id, { argv: ["true"], env: {}, stdin: false }, sink, options),
			() => engine().inspectExec("x", options),
			() => engine().inspectImage(subject().image, options),
			() => engine().listImages(labels, options),
			() => engine().buildImage(buildSpec(subject(), "FROM scratch"), options),
			() => engine().pullImage("localhost:1/x/y:z", options),
			() => engine().removeImage("never-made", options),
			() => engine().createNetwork({ name: spec.name, labels, interContainer: true, internal: true }, options),
			() => engine().inspectNetwork("none", options),
			() => engine().listNetworks(labels, options),
			() => engine().removeNetwork("never-made", options),
		])
			await expect(attempt()).rejects.toBe(reason);
		expect(await engine().inspectContainer(id)).toMatchObject({ state: "created" });
		expect(await engine().inspectContainer(spec.name)).toBeUndefined();
	});
}

function imageContract(open: () => Promise<Subject>): void {
	const subject = useSubject(open);
	const engine = () => subject().engine;

	describe("images", () => {
		test("an image is there by reference and by content id, with its platform", async () => {
			const image = await engine().inspectImage(subject().image);
			expect(image).toMatchObject({ os: "linux", id: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) });
			expect(image?.tags).toContain(subject().image);
			expect(image?.env["PATH"]).toContain("/bin");
			expect(await engine().inspectImage(image?.id ?? "")).toEqual(image);
		});

		test("an image that is not there gives nothing", async () => {
			expect(await engine().inspectImage("sandboxes.test/never-made:1")).toBeUndefined();
			expect(await engine().removeImage("sandboxes.test/never-made:1")).toBe(false);
		});

		test("a built image has its tag and labels, is listed by them, and goes with its last tag", async () => {
			const progress: Progress[] = [];
			const spec = buildSpec(subject(), `FROM ${subject().image}\nLABEL made=here\n`);
			await engine().buildImage(spec, { onProgress: (line) => progress.push(line) });
			expect(progress.some(({ stage, message }) => stage === "build" && /^Step 1\/\d+ : FROM/.test(message))).toBe(
				true,
			);
			const image = await engine().inspectImage(spec.tag);
			expect(image?.labels).toMatchObject(spec.labels);
			expect(await engine().listImages(spec.labels)).toEqual([image]);
			const anyValue = Object.fromEntries(Object.keys(spec.labels).map((key) => [key, ""]));
			expect((await engine().listImages(anyValue)).map(({ id }) => id)).toContain(image?.id);
			expect(await engine().listImages({ ...spec.labels, made: "elsewhere" })).toEqual([]);
			expect(await engine().removeImage(spec.tag)).toBe(true);
			expect(await engine().inspectImage(spec.tag)).toBeUndefined();
		});

		test("a failing build rejects with its step and the end of its log, and leaves the older image under the tag", async () => {
			const good = buildSpec(subject(), `FROM ${subject().image}\nLABEL made=before\n`);
			await engine().buildImage(good);
			const before = await engine().inspectImage(good.tag);
			const bad = `FROM ${subject().image}\nRUN echo why-it-failed >&2; exit 3\n`;
			await expect(engine().buildImage({ ...good, context: contextOf(bad) })).rejects.toMatchObject({
				code: "image_build_failed",
				details: {
					reference: good.tag,
					step: expect.stringMatching(/^Step 2\/\d+ : RUN echo why-it-failed >&2; exit 3$/),
					log: expect.stringContaining("why-it-failed"),
				},
				message: expect.stringMatching(/Step 2\/\d+ .*returned a non-zero code: 3/),
			});
			expect(await engine().inspectImage(good.tag)).toEqual(before);
			await engine().removeImage(good.tag);
		});

		test("a pull of what is not to be had rejects with the reference and the engine's own line", async () => {
			const reference = "localhost:1/sandboxes.test/never-made:1";
			await expect(engine().pullImage(reference)).rejects.toMatchObject({
				code: "image_unavailable",
				details: { reference, reason: expect.stringMatching(/refused|denied/) },
			});
		});
	});
}

function networkContract(open: () => Promise<Subject>): void {
	const subject = useSubject(open);
	const engine = () => subject().engine;
	const spec = () => ({
		name: freshName(subject()),
		labels: { ...subject().labels, group: freshName(subject()) },
		interContainer: false,
		internal: true,
	});

	describe("networks", () => {
		test("a network that was made is there by id, exact name and labels, and goes once", async () => {
			const wanted = spec();
			const id = await engine().createNetwork(wanted);
			const found = await engine().inspectNetwork(wanted.name);
			expect(found).toMatchObject({ id, name: wanted.name, labels: wanted.labels });
			expect(await engine().inspectNetwork(id)).toMatchObject({ id });
			expect(await engine().inspectNetwork(id.slice(0, 10))).toBeUndefined();
			expect((await engine().listNetworks(wanted.labels)).map((network) => network.id)).toEqual([id]);
			expect(await engine().removeNetwork(id)).toBe(true);
			expect(await engine().removeNetwork(id)).toBe(false);
			expect(await engine().inspectNetwork(wanted.name)).toBeUndefined();
		});

		test("a name that is taken is refused", async () => {
			const wanted = spec();
			const id = await engine().createNetwork(wanted);
			await expectFailure(engine().createNetwork(wanted), "name_taken");
			await engine().removeNetwork(id);
		});

		test("it stays while a running container is on it", async () => {
			const wanted = spec();
			const id = await engine().createNetwork(wanted);
			const box = await runningContainer(subject(), { network: wanted.name });
			await expectFailure(engine().removeNetwork(id), "network_in_use");
			await engine().removeContainer(box);
			expect(await engine().removeNetwork(id)).toBe(true);
		});
	});
}

function buildSpec(subject: Subject, dockerfile: string) {
	const tag = `${freshName(subject)}:1`;
	return { context: contextOf(dockerfile), tag, buildArgs: {}, labels: { ...subject.labels, "built-as": tag } };
}

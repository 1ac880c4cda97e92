/** The real engine for tests. A missing one fails them, unless SANDBOXES_TESTS_WITHOUT_ENGINE=1 lets them be skipped. */
import { connectEngine, type DockerEngine } from "../../src/engine/docker-engine.js";
import { messageOf } from "../../src/primitives/errors.js";

const SWITCH = "SANDBOXES_TESTS_WITHOUT_ENGINE";

/** An engine that answers; `undefined` where none does and the tests may be skipped. Throws where one is required. */
export async function realEngine(): Promise<DockerEngine | undefined> {
	const engine = connectEngine();
	try {
		await engine.ping();
		return engine;
	} catch (error) {
		if (process.env[SWITCH] === "1") return undefined;
		throw new Error(`these tests need a container engine (${SWITCH}=1 skips them): ${messageOf(error)}`, {
			cause: error,
		});
	}
}

/** A small image that is on the engine: SANDBOXES_TEST_IMAGE, or else Debian's. */
export function testImage(): string {
	return process.env["SANDBOXES_TEST_IMAGE"] || "debian:bookworm-slim";
}

/** A label that nothing else carries, for all that one test file makes. */
export function testLabel(file: string): Readonly<Record<string, string>> {
	return { "sandboxes.test": `${file}-${process.pid}-${Date.now().toString(36)}` };
}

/** Removes every container, network and image that carries the labels, and gives what there was. */
export async function removeLabelled(
	engine: DockerEngine,
	labels: Readonly<Record<string, string>>,
): Promise<{ readonly containers: string[]; readonly networks: string[]; readonly images: string[] }> {
	if (Object.keys(labels).length === 0) throw new Error("without a label everything on the engine would be removed");
	const containers = await engine.listContainers(labels);
	await Promise.all(containers.map(({ id }) => engine.removeContainer(id)));
	const networks = await engine.listNetworks(labels);
	for (const { id } of networks) await engine.removeNetwork(id);
	const images = await engine.listImages(labels);
	for (const { id, tags } of images)
		for (const reference of tags.length > 0 ? tags : [id]) await engine.removeImage(reference);
	return {
		containers: containers.map(({ name }) => name),
		networks: networks.map(({ name }) => name),
		images: images.map(({ id, tags }) => tags[0] ?? id),
	};
}

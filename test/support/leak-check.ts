/** Remembers what of ours stands on the engine and in the temporary directory, and later tells what has come since. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { connectEngine } from "../../src/engine/docker-engine.js";
import { isSandboxError } from "../../src/primitives/errors.js";

const [verb, path = ""] = process.argv.slice(2);

async function look(): Promise<string[]> {
	const found = readdirSync(tmpdir())
		.filter((name) => name.startsWith("sandboxes-"))
		.map((name) => `directory ${name}`);
	const engine = connectEngine();
	try {
		const all = await engine.listContainers({});
		for (const container of all) {
			const ours = Object.keys(container.labels).some((label) => label.startsWith("sandboxes."));
			if (ours) found.push(`container ${container.name} ${container.id.slice(0, 12)}`);
		}
		for (const network of await engine.listNetworks({})) {
			if (Object.keys(network.labels).some((label) => label.startsWith("sandboxes.")))
				found.push(`network ${network.name}`);
		}
		for (const image of await engine.listImages({})) {
			const tags = image.tags.filter((tag) => /^sandboxes-test/.test(tag));
			found.push(...tags.map((tag) => `image ${tag}`));
		}
	} catch (error) {
		if (!isSandboxError(error, "engine_unavailable")) throw error;
	}
	for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
		try {
			const command = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
			if (command.includes("test/support/") && !command.includes("leak-check"))
				found.push(`process ${command.trim().slice(0, 120)}`);
		} catch {
			// It ended while we looked.
		}
	}
	return found;
}

const now = await look();
if (verb === "remember") {
	writeFileSync(path, JSON.stringify(now));
} else {
	const before = new Set(JSON.parse(readFileSync(path, "utf8")) as string[]);
	const left = now.filter((thing) => !before.has(thing));
	for (const thing of left) console.log(`left behind: ${thing}`);
	process.exitCode = left.length === 0 ? 0 : 1;
}

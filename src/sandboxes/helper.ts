/** A short-lived container of ours that deletes what the caller may not: files of root that commands left in a workspace. */
import { randomUUID } from "node:crypto";
import { readFileSync, realpathSync } from "node:fs";
import { sleep } from "../primitives/abort.js";
import { SandboxError } from "../primitives/errors.js";
import { MiB } from "../primitives/units.js";
import type { Context } from "./context.js";
import { fleetLabels } from "./labels.js";

const PURGE_TIMEOUT_MS = 10 * 60_000;
/** `rm` of the image itself: everything below the mount point, dot files too. */
const PURGE = "cd /purge && rm -rf -- ..?* .[!.]* *";

/**
 * Empties a directory as root inside a container without network that sees nothing else. The directory itself stays.
 * `imageId` is the image whose `rm` is used; without one, any local image of the fleet's runtimes.
 */
export async function purgeAsRoot(
	context: Context,
	directory: string,
	imageId: string | undefined,
	signal?: AbortSignal,
): Promise<void> {
	const { engine } = context;
	refuseMounts(directory);
	const image = await findHelperImage(context, imageId);
	if (image === undefined) {
		throw new SandboxError(
			"workspace_unusable",
			`removing ${directory}: it holds files of root, and no image is there to remove them with`,
			{
				details: { path: directory, reason: "files of another user" },
				hint: "build a runtime (sbx images build node) or remove the directory as root",
			},
		);
	}
	const { id } = await engine.createContainer({
		name: `${context.fleet.prefix}_PURGE-${randomUUID().slice(0, 12)}`,
		image,
		entrypoint: ["sh", "-c", PURGE],
		command: [],
		env: {},
		labels: fleetLabels(context.fleet, "helper"),
		user: "root",
		workingDir: "/",
		memoryBytes: MiB(256),
		cpus: 1,
		pids: 32,
		shmBytes: MiB(1),
		stopGraceMs: 0,
		mounts: [{ source: directory, target: "/purge", readOnly: false, nonRecursive: true }],
		tmpfs: {},
		network: "none",
		ports: [],
		readOnlyRoot: true,
		capAdd: ["DAC_OVERRIDE", "FOWNER"],
	});
	try {
		await engine.startContainer(id);
		await waitForEnd(context, id, directory, signal);
	} finally {
		await engine.removeContainer(id);
	}
}

/** What is mounted below is somebody else's: nothing is deleted then, as the helper could not tell it apart. */
function refuseMounts(directory: string): void {
	let table: string;
	try {
		table = readFileSync("/proc/self/mountinfo", "latin1");
	} catch {
		return;
	}
	const inside = `${realpathSync(directory)}/`;
	for (const line of table.split("\n")) {
		const escaped = line.split(" ")[4] ?? "";
		const bytes = escaped.replace(/\\([0-7]{3})/g, (_match, octal: string) =>
			String.fromCharCode(Number.parseInt(octal, 8)),
		);
		const target = Buffer.from(bytes, "latin1").toString("utf8");
		if (!target.startsWith(inside)) continue;
		throw new SandboxError("workspace_unusable", `removing ${directory}: something is mounted at ${target}`, {
			details: { path: directory, reason: "another file system is mounted below it" },
			hint: "unmount it and repeat the call",
		});
	}
}

async function waitForEnd(
	context: Context,
	id: string,
	directory: string,
	signal: AbortSignal | undefined,
): Promise<void> {
	const deadline = Date.now() + PURGE_TIMEOUT_MS;
	for (let pause = 20; ; pause = Math.min(pause * 1.5, 500)) {
		const record = await context.engine.inspectContainer(id);
		if (!record || record.state === "exited" || record.state === "dead") return;
		if (Date.now() > deadline) {
			throw new SandboxError("timeout", `removing ${directory}: no end within ${PURGE_TIMEOUT_MS} ms`, {
				details: { what: "purge", timeoutMs: PURGE_TIMEOUT_MS },
			});
		}
		await sleep(pause, signal);
	}
}

async function findHelperImage(context: Context, imageId: string | undefined): Promise<string | undefined> {
	if (imageId !== undefined && (await context.engine.inspectImage(imageId))) return imageId;
	const [runtime] = await context.engine.listImages({ "sandboxes.runtime": "" });
	return runtime?.id;
}

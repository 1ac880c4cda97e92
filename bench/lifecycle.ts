/** Create, exec, list and the CLI, each beside the docker command line and plain dockerode in one run. `npm run bench`. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Docker from "dockerode";
import { Sandboxes } from "../src/index.js";
import { command, compare } from "./harness.js";

const image = process.env["BENCH_IMAGE"] ?? "debian:bookworm-slim";
const rounds = Number(process.env["BENCH_ROUNDS"] ?? 30);
const home = mkdtempSync(join(tmpdir(), "sandboxes-bench-"));
const root = join(home, "root");
const prefix = `bench${process.pid}`;
const label = `sandboxes.bench=${prefix}`;
const sandboxes = new Sandboxes({ root, prefix });
const docker = new Docker();
const cli = join(import.meta.dirname, "../dist/cli/sbx.js");
const sbx = (...args: string[]): Promise<string> =>
	command(process.execPath, cli, "--root", root, "--prefix", prefix, ...args);
const dockerWords = ["--label", label, "--network", "none", "--init"];

async function dockerodeExec(id: string): Promise<void> {
	const exec = await docker.getContainer(id).exec({ Cmd: ["true"], AttachStdout: true, AttachStderr: true });
	const stream = await exec.start({ hijack: true, stdin: false });
	stream.resume();
	await new Promise((resolve) => stream.on("end", resolve));
	await exec.inspect();
}

try {
	const box = await sandboxes.create("warm", { image, network: "none" });
	let made = 0;
	const next = (): string => `cold-${made++}`;

	await compare(
		"warm create(): the sandbox runs and serves",
		[
			{ name: "docker inspect (CLI)", run: () => command("docker", "inspect", box.id) },
			{ name: "dockerode inspect", run: () => docker.getContainer(box.id).inspect() },
			{ name: "sandboxes create()", run: () => sandboxes.create("warm", { image, network: "none" }) },
			{ name: "sandboxes get()", run: () => sandboxes.get("warm") },
		],
		rounds,
	);

	await compare(
		"exec true",
		[
			{ name: "docker exec (CLI)", run: () => command("docker", "exec", box.id, "true") },
			{ name: "dockerode exec", run: () => dockerodeExec(box.id) },
			{ name: "sandboxes exec()", run: () => box.exec(["true"]) },
		],
		rounds,
	);

	let id = "";
	let name = "";
	await compare(
		"cold create → first exec, no network",
		[
			{
				name: "docker run -d + docker exec (CLI)",
				run: async () => {
					id = (await command("docker", "run", "-d", ...dockerWords, image, "sleep", "1000")).trim();
					await command("docker", "exec", id, "true");
				},
				after: () => command("docker", "rm", "-f", id),
			},
			{
				name: "dockerode create + start + exec",
				run: async () => {
					const container = await docker.createContainer({
						Image: image,
						Cmd: ["sleep", "1000"],
						Labels: { "sandboxes.bench": prefix },
						HostConfig: { NetworkMode: "none", Init: true },
					});
					await container.start();
					await dockerodeExec(container.id);
					id = container.id;
				},
				after: () => docker.getContainer(id).remove({ force: true }),
			},
			{
				name: "sandboxes create() + exec()",
				run: async () => {
					name = next();
					const cold = await sandboxes.create(name, { image, network: "none" });
					await cold.exec(["true"]);
				},
				after: () => sandboxes.remove(name),
			},
		],
		Math.min(rounds, 15),
		1,
	);

	await compare(
		"the command line, whole processes",
		[
			{ name: "node -e 0", run: () => command(process.execPath, "-e", "0") },
			{ name: "sbx --version", run: () => command(process.execPath, cli, "--version") },
		],
		rounds,
	);
	await compare(
		"list, whole processes",
		[
			{
				name: "docker ps -a --filter label",
				run: () => command("docker", "ps", "-a", "--filter", `label=sandboxes.prefix=${prefix}`),
			},
			{ name: "sbx ls", run: () => sbx("ls") },
		],
		rounds,
	);
	await compare(
		"exec, whole processes",
		[
			{ name: "docker exec", run: () => command("docker", "exec", box.id, "true") },
			{ name: "sbx exec", run: () => sbx("exec", "warm", "--", "true") },
		],
		rounds,
	);

	// Containers that were made and never started are enough to be listed, and cost the machine little.
	const labels = (await docker.getContainer(box.id).inspect()).Config.Labels;
	const extra: string[] = [];
	for (const count of [10, 100, 500]) {
		while (extra.length < count) {
			const index = extra.length;
			const container = await docker.createContainer({
				name: `${prefix}-l${index}`,
				Image: image,
				Cmd: ["true"],
				Labels: { ...labels, "sandboxes.name": `l${index}` },
				HostConfig: { NetworkMode: "none" },
			});
			extra.push(container.id);
		}
		const filters = { label: [`sandboxes.prefix=${prefix}`] };
		await compare(
			`list of ${count}`,
			[
				{
					name: "docker ps -a --filter label",
					run: () => command("docker", "ps", "-a", "--filter", `label=sandboxes.prefix=${prefix}`),
				},
				{ name: "dockerode listContainers", run: () => docker.listContainers({ all: true, filters }) },
				{ name: "sandboxes list()", run: () => sandboxes.list() },
			],
			Math.min(rounds, 20),
		);
	}
	await Promise.all(extra.map((container) => docker.getContainer(container).remove({ force: true })));
} finally {
	await sandboxes.removeAll();
	for (const info of await docker.listContainers({ all: true, filters: { label: [label] } })) {
		await docker.getContainer(info.Id).remove({ force: true });
	}
	rmSync(home, { recursive: true, force: true });
}

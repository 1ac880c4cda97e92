/** A fleet of a test's own on the real engine: a fresh root and prefix, and nothing of it left afterwards. */
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmodSync, chownSync, existsSync, mkdtempSync, readdirSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { connectEngine } from "../../src/engine/docker-engine.js";
import { type SandboxEvent, Sandboxes, type SandboxesOptions } from "../../src/index.js";

const run = promisify(execFile);

/** An image that every test machine has. */
export const TEST_IMAGE = "debian:bookworm-slim";

export interface TestFleet {
	readonly root: string;
	readonly prefix: string;
	readonly sandboxes: Sandboxes;
	readonly events: SandboxEvent[];
	/** Another object for the same fleet, as another process would have it. */
	again(options?: SandboxesOptions): Sandboxes;
	/** The containers of the fleet, in any state, as `id name state`. */
	containers(): Promise<{ id: string; name: string; state: string }[]>;
	/** Names of workspaces and trash that stand in the root. */
	directories(): string[];
	dispose(): Promise<void>;
}

export function makeFleet(options: SandboxesOptions & { readonly owner?: number } = {}): TestFleet {
	const { owner, ...rest } = options;
	const home = mkdtempSync(join(tmpdir(), "sandboxes-test-"));
	chmodSync(home, 0o755);
	if (owner !== undefined) chownSync(home, owner, owner);
	const root = rest.root ?? join(home, "root");
	const prefix = rest.prefix ?? `t${randomBytes(4).toString("hex")}`;
	const events: SandboxEvent[] = [];
	const again = (more: SandboxesOptions = {}): Sandboxes =>
		new Sandboxes({ onEvent: (event) => events.push(event), ...rest, root, prefix, ...more });
	const sandboxes = again();
	return {
		root,
		prefix,
		sandboxes,
		events,
		again,
		async containers() {
			const out = await docker(
				"ps",
				"-a",
				"--no-trunc",
				"--filter",
				`label=sandboxes.prefix=${prefix}`,
				"--format",
				"{{.ID}} {{.Names}} {{.State}}",
			);
			return out
				.split("\n")
				.filter(Boolean)
				.map((line) => {
					const [id = "", name = "", state = ""] = line.split(" ");
					return { id, name, state };
				});
		},
		directories() {
			const list = (name: string): string[] => (existsSync(join(root, name)) ? readdirSync(join(root, name)) : []);
			return [
				...list("workspaces"),
				...list("homes"),
				...list("accounts"),
				...list("trash").map((entry) => `trash/${entry}`),
			];
		},
		async dispose() {
			if (owner === undefined) await new Sandboxes({ root, prefix }).removeAll();
			await rm(home, { recursive: true, force: true });
			if (options.root) await rm(options.root, { recursive: true, force: true });
			await removeLabelled(prefix);
		},
	};
}

/** Runs the docker command; gives what it printed. */
export async function docker(...args: string[]): Promise<string> {
	const { stdout } = await run("docker", args, { maxBuffer: 64 * 1024 ** 2 });
	return stdout.trimEnd();
}

/** What `docker inspect` says. */
export async function inspect(
	id: string,
): Promise<Record<string, never> & { HostConfig: Record<string, unknown>; Config: Record<string, unknown> }> {
	return JSON.parse(await docker("inspect", id))[0];
}

async function removeLabelled(prefix: string): Promise<void> {
	const engine = connectEngine();
	const labels = { "sandboxes.prefix": prefix };
	for (const { id } of await engine.listContainers(labels)) await engine.removeContainer(id);
	for (const { id } of await engine.listNetworks(labels)) await engine.removeNetwork(id);
}

/** Runs a module of the tests in a process of its own, with words; gives what it printed as JSON. */
export async function runProcess<Result>(
	script: string,
	args: readonly string[],
	options: { readonly uid?: number } = {},
): Promise<Result> {
	const path = join(import.meta.dirname, script);
	const command = ["--import", "tsx", path, ...args];
	const { NODE_EXTRA_CA_CERTS: _unused, ...env } = process.env;
	const { stdout } = await run(process.execPath, command, {
		maxBuffer: 64 * 1024 ** 2,
		cwd: join(import.meta.dirname, "../.."),
		env: { ...env, HOME: options.uid === undefined ? env["HOME"] : "/nonexistent" },
		...(options.uid === undefined ? {} : { uid: options.uid, gid: options.uid }),
	});
	return JSON.parse(stdout);
}

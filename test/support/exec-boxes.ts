/** Containers for the tests of `src/exec`, made as sandboxes are: through the engine's interface, with the supervisor as main process. */
import { randomBytes } from "node:crypto";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connectEngine } from "../../src/engine/docker-engine.js";
import type { Engine } from "../../src/engine/engine.js";
import { Commands, type ExecPath } from "../../src/exec/commands.js";
import type { ExecOptions, ExecResult } from "../../src/exec/request.js";
import type { CommandTarget } from "../../src/exec/starter.js";
import { SUPERVISOR_COMMAND } from "../../src/exec/supervisor.js";

export const LABEL = { "sandboxes.test": "exec" };

export interface Box {
	readonly target: CommandTarget;
	exec(command: unknown, options?: Omit<ExecOptions, "encoding">): Promise<ExecResult>;
	bytes(command: unknown, options?: Omit<ExecOptions, "encoding">): Promise<ExecResult<Buffer>>;
	/** Command lines of all processes but the asking ones. */
	processes(): Promise<string>;
}

export interface BoxChoice {
	readonly image: string;
	readonly user?: string;
	readonly pids?: number;
	readonly memoryBytes?: number;
	readonly tmpfs?: Readonly<Record<string, string>>;
	readonly command?: readonly string[];
	readonly env?: Readonly<Record<string, string>>;
	readonly capAdd?: readonly string[];
}

export class Boxes {
	readonly engine: Engine = connectEngine();
	readonly commands: Commands;
	readonly #ids: string[] = [];
	readonly #workspaces: string[] = [];

	constructor(path: ExecPath = "session") {
		this.commands = new Commands(this.engine, { path });
	}

	async make(choice: BoxChoice): Promise<Box> {
		const name = `sbxtest-exec-${randomBytes(6).toString("hex")}`;
		const workspace = await mkdtemp(join(tmpdir(), "sbxtest-exec-"));
		await chmod(workspace, 0o777);
		this.#workspaces.push(workspace);
		const { id } = await this.engine.createContainer({
			name,
			image: choice.image,
			entrypoint: choice.command ?? SUPERVISOR_COMMAND,
			command: [],
			env: choice.env ?? {},
			labels: LABEL,
			user: choice.user ?? "1000:1000",
			workingDir: "/workspace",
			memoryBytes: choice.memoryBytes ?? 512 * 1024 * 1024,
			cpus: 1,
			pids: choice.pids ?? 256,
			shmBytes: 64 * 1024 * 1024,
			stopGraceMs: 10_000,
			mounts: [{ source: workspace, target: "/workspace", readOnly: false }],
			tmpfs: choice.tmpfs ?? {},
			network: "none",
			ports: [],
			readOnlyRoot: false,
			capAdd: choice.capAdd ?? [],
		});
		this.#ids.push(id);
		await this.engine.startContainer(id);
		return this.box({ id, name });
	}

	box(target: CommandTarget): Box {
		const run = (command: unknown, options: object = {}): Promise<ExecResult | ExecResult<Buffer>> =>
			this.commands.run(target, this.commands.normalise(command, options));
		return {
			target,
			exec: (command, options) => run(command, options) as Promise<ExecResult>,
			bytes: (command, options) => run(command, { ...options, encoding: "buffer" }) as Promise<ExecResult<Buffer>>,
			processes: async () => {
				const script =
					'for d in /proc/[0-9]*; do [ "$d" = "/proc/$$" ] || { tr "\\0" " " <"$d/cmdline"; echo; }; done 2>/dev/null';
				return ((await run(script)) as ExecResult).stdout;
			},
		};
	}

	async removeAll(): Promise<void> {
		for (const id of this.#ids.splice(0)) await this.engine.removeContainer(id);
		for (const path of this.#workspaces.splice(0)) await rm(path, { recursive: true, force: true });
	}
}

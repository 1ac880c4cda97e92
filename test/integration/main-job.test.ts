/** The first of the README's two commands, after its set-up: what a newcomer sees. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { buildProgramOnce } from "../cli/sbx.js";
import { docker } from "../support/fleet.js";

const run = promisify(execFile);
const project = join(import.meta.dirname, "../..");
beforeAll(() => buildProgramOnce());

test("the main job creates, runs, reuses, rebuilds, starts, lists and removes, and leaves nothing", async () => {
	const { stdout } = await run(process.execPath, [join(project, "scripts/main-job.mjs")], { timeout: 110_000 });
	const id = /workspace-42 created (\S+) because there is none yet/.exec(stdout)?.[1];
	expect(stdout).toContain('stdout "2\\n" exitCode 0');
	expect(stdout).toContain(`workspace-42 served ${id}`);
	expect(stdout).toMatch(
		/workspace-42 rebuilt \S+ because memoryBytes 512 MiB is less than the asked 1 GiB \(capacity\)\n {2}marker: kept/,
	);
	expect(stdout).toMatch(/workspace-42 started \S+/);
	expect(stdout).toMatch(/remove\n {2}true\nlist\n {2}0 sandboxes\n$/);
	expect(await docker("ps", "-a", "-q", "--filter", "label=sandboxes.prefix=main-job")).toBe("");
});

test("the set-up says what is there and does nothing twice", async () => {
	const { stdout } = await run(join(project, "scripts/setup"), { timeout: 110_000 });
	expect(stdout).toMatch(/setup: dependencies are there/);
	expect(stdout).toMatch(/answers at/);
	expect(stdout).toMatch(/setup: done\n$/);
});

import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { buildProgramOnce } from "../cli/sbx.js";

const project = join(import.meta.dirname, "../..");
const home = mkdtempSync(join(tmpdir(), "sandboxes-test-package-"));
const stranger = join(home, "stranger");
const root = join(home, "root");
const prefix = `pkg${process.pid}`;
/** A stranger's surroundings: without what npm tells the scripts of this project, and without certificates that cost every start. */
const env = Object.fromEntries(
	Object.entries(process.env).filter(([name]) => !/^npm_|^NODE_EXTRA_CA_CERTS$/i.test(name)),
);
let tarball = "";

function run(
	file: string,
	args: readonly string[],
	options: { cwd?: string; env?: NodeJS.ProcessEnv } = {},
): { status: number | null; stdout: string; stderr: string } {
	const result = spawnSync(file, args, {
		cwd: options.cwd ?? stranger,
		env: options.env ?? env,
		encoding: "utf8",
		timeout: 240_000,
		maxBuffer: 64 * 1024 ** 2,
	});
	return { status: result.status, stdout: result.stdout, stderr: result.stderr };
}

const sbx = (...args: string[]) =>
	run(join(stranger, "node_modules/.bin/sbx"), ["--root", root, "--prefix", prefix, ...args]);

beforeAll(() => {
	buildProgramOnce();
	const packed = JSON.parse(
		execFileSync("npm", ["pack", "--json", "--pack-destination", home], {
			cwd: project,
			encoding: "utf8",
			stdio: "pipe",
		}),
	) as { filename: string }[];
	tarball = join(home, packed[0]?.filename ?? "");
	mkdirSync(stranger);
	writeFileSync(join(stranger, "package.json"), JSON.stringify({ name: "stranger", private: true, type: "module" }));
	execFileSync("npm", ["install", "--ignore-scripts", "--no-audit", "--no-fund", tarball], {
		cwd: stranger,
		stdio: "pipe",
	});
	writeFileSync(
		join(stranger, "job.mjs"),
		`import { Sandboxes } from "sandboxes";
const sandboxes = new Sandboxes({ root: ${JSON.stringify(root)}, prefix: ${JSON.stringify(prefix)} });
const box = await sandboxes.create("lib", { network: "none" });
const { stdout } = await box.exec("node -e 'console.log(1+1)'");
console.log(JSON.stringify([stdout, (await sandboxes.list()).length, await sandboxes.remove("lib")]));`,
	);
});

afterAll(() => {
	if (tarball) sbx("remove", "--all");
	rmSync(home, { recursive: true, force: true });
});

describe("the packed package", () => {
	test("holds what runs and what is read, and nothing of the workshop", () => {
		const installed = readdirSync(join(stranger, "node_modules/sandboxes"));
		expect(installed).toEqual(expect.arrayContaining(["dist", "images", "README.md", "CHANGELOG.md", "package.json"]));
		for (const name of ["src", "test", "bench", "node_modules", ".ci"]) expect(installed).not.toContain(name);
		expect(readdirSync(join(stranger, "node_modules/sandboxes/images"))).toEqual(
			expect.arrayContaining(["node", "python", "node-python", "browser", "media"]),
		);
	});

	test("passes publint and are-the-types-wrong", () => {
		const publint = run("npx", ["publint", "--strict", tarball], { cwd: project });
		expect(publint.stdout + publint.stderr).toMatch(/All good/);
		const attw = run("npx", ["attw", tarball, "--profile", "esm-only"], { cwd: project });
		expect([attw.status, attw.stdout.slice(-2000)]).toEqual([0, expect.anything()]);
	});

	test("type-checks in a stranger's project, where a bare number is no memory", () => {
		const good = `
import { describeReason, GiB, isSandboxError, MiB, Sandboxes, type ExecResult, type SandboxInfo } from "sandboxes";
const sandboxes = new Sandboxes({ root: "/tmp/x", defaults: { memory: GiB(1) }, images: { mine: "debian:bookworm-slim" } });
export async function use(): Promise<SandboxInfo[]> {
	await using box = await sandboxes.create("w", { runtime: "node", memory: MiB(512), ports: [80], env: { A: "1" } });
	const text: ExecResult = await box.exec("true");
	const raw: ExecResult<Buffer> = await box.exec(["true"], { encoding: "buffer" });
	console.log(text.stdout.length + raw.stdout.byteLength, box.reasons.map(describeReason));
	try { await sandboxes.get("x"); } catch (error) {
		if (isSandboxError(error, "not_found")) console.log(error.details.name);
		if (isSandboxError(error) && error.code === "lock_timeout") console.log(error.details.holderPid);
	}
	return sandboxes.list();
}
`;
		const bad: [string, string][] = [
			["a bare number for memory", `void sandboxes.create("w", { memory: 512 });`],
			["runtime and image at once", `void sandboxes.create("w", { runtime: "node", image: "debian" });`],
			["an unknown option", `void sandboxes.create("w", { memroy: MiB(1) });`],
			["a network that is none", `void sandboxes.create("w", { network: "host" });`],
			["a number as command", `void box.exec(1);`],
			["details of another code", `if (isSandboxError(error, "not_found")) console.log(error.details.holderPid);`],
		];
		const head = `import { isSandboxError, MiB, Sandboxes, type Sandbox } from "sandboxes";\ndeclare const sandboxes: Sandboxes; declare const box: Sandbox; declare const error: unknown;\nvoid [isSandboxError, MiB, sandboxes, box, error];\n`;
		cpSync(join(project, "node_modules/@types/node"), join(stranger, "node_modules/@types/node"), { recursive: true });
		cpSync(join(project, "node_modules/undici-types"), join(stranger, "node_modules/undici-types"), {
			recursive: true,
		});
		writeFileSync(join(stranger, "good.ts"), good);
		for (const [index, [, line]] of bad.entries()) {
			writeFileSync(join(stranger, `bad${index}.ts`), `${head}// @ts-expect-error\n${line}\nexport {};\n`);
		}
		const options = {
			module: "NodeNext",
			target: "ES2022",
			lib: ["ES2023", "ESNext.Disposable"],
			strict: true,
			noEmit: true,
			types: ["node"],
			exactOptionalPropertyTypes: true,
		};
		writeFileSync(join(stranger, "tsconfig.json"), JSON.stringify({ compilerOptions: options, include: ["*.ts"] }));
		const checked = run(process.execPath, [join(project, "node_modules/typescript/bin/tsc"), "-p", "."]);
		expect(checked.stdout).toBe("");
		expect(checked.status).toBe(0);
	});

	test("runs the main job as a library", () => {
		expect(run(process.execPath, ["job.mjs"])).toMatchObject({ status: 0, stdout: '["2\\n",1,true]\n', stderr: "" });
	});

	test("drives the command line, under both its names", () => {
		expect(sbx("create", "cli", "--network", "none", "--quiet")).toMatchObject({ status: 0 });
		expect(sbx("exec", "cli", "--", "sh", "-c", "echo out; echo err >&2; exit 7")).toEqual({
			status: 7,
			stdout: "out\n",
			stderr: "err\n",
		});
		const again = run(join(stranger, "node_modules/.bin/sandboxes"), [
			"--root",
			root,
			"--prefix",
			prefix,
			"list",
			"--json",
		]);
		expect(JSON.parse(again.stdout)).toMatchObject([{ name: "cli", state: "running" }]);
		expect(sbx("remove", "cli").status).toBe(0);
	});

	test.each([22, 24])("works on Node %i", (major) => {
		const words = ["-y", "-p", `node@${major}`, "node"];
		const version = run("npx", [...words, "--version"]);
		expect(version.stdout).toMatch(new RegExp(`^v${major}\\.`));
		const job = run("npx", [...words, "job.mjs"]);
		expect(job).toMatchObject({ status: 0, stdout: '["2\\n",1,true]\n' });
		const cli = run("npx", [...words, "node_modules/.bin/sbx", "--version"]);
		const { version: own } = JSON.parse(readFileSync(join(project, "package.json"), "utf8")) as { version: string };
		expect(cli.stdout.trim()).toBe(own);
	});
});

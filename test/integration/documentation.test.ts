/** Every example in a docstring of the public surface, in the README and in the guides is run as it stands. */
import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, describe, expect, test } from "vitest";

const run = promisify(execFile);
const project = join(import.meta.dirname, "../..");
const home = mkdtempSync(join(project, ".cache-examples-"));
afterAll(() => rmSync(home, { recursive: true, force: true }));

interface Example {
	readonly title: string;
	readonly code: string;
}

function docstringExamples(): Example[] {
	const files = (readdirSync(join(project, "src"), { recursive: true }) as string[]).filter((path) =>
		path.endsWith(".ts"),
	);
	return files.flatMap((path) => {
		const text = readFileSync(join(project, "src", path), "utf8");
		return blocks(text.replace(/^[ \t]*\* ?/gm, "")).map((code, index) => ({
			title: `src/${path} #${index + 1}`,
			code,
		}));
	});
}

function guideExamples(): Example[] {
	const guides = readdirSync(join(project, "docs"))
		.filter((path) => path.endsWith(".md"))
		.map((path) => `docs/${path}`);
	return ["README.md", ...guides].flatMap((path) =>
		blocks(readFileSync(join(project, path), "utf8")).map((code, index) => ({ title: `${path} #${index + 1}`, code })),
	);
}

function blocks(text: string): string[] {
	return [...text.matchAll(/^```ts\n([\s\S]*?)^```/gm)].map((match) => match[1] ?? "");
}

/** What the example says it prints: the comments behind its `console.log` lines. */
function promised(code: string): string[] {
	return [...code.matchAll(/console\.log\(.*\);? *\/\/ (.*)$/gm)].map((match) => (match[1] ?? "").trim());
}

const examples = [...docstringExamples(), ...guideExamples()];

test("there are examples", () => {
	expect(examples.length).toBeGreaterThan(4);
});

describe("an example does what it says", () => {
	test.each(examples)("$title", async ({ code, title }) => {
		const file = join(home, `${title.replace(/\W+/g, "-")}.ts`);
		writeFileSync(file, code.replaceAll('from "sandboxes"', `from ${JSON.stringify(join(project, "src/index.js"))}`));
		const { stdout } = await run(process.execPath, ["--import", "tsx", file], { cwd: project, timeout: 100_000 });
		const expected = promised(code);
		if (expected.length > 0) expect(stdout.trim().split("\n")).toEqual(expected);
	});
});

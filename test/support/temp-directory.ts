/** A directory of its own for each test, removed afterwards. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

export function tempDirectory(): string {
	const directory = mkdtempSync(join(tmpdir(), "sandboxes-test-"));
	onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
	return directory;
}

import { existsSync, readFileSync } from "node:fs";
import { chmod } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { engineAnswer, type StubServer, stubServer } from "../support/stub-server.js";
import { tempDirectory } from "../support/temp-directory.js";
import { buildProgramOnce, runSbx } from "./sbx.js";

beforeAll(buildProgramOnce);

/** What each kind of missing engine is called. */
const KINDS: readonly (readonly [string, () => Promise<{ host: string; stub?: StubServer }>, RegExp])[] = [
	["no socket", async () => ({ host: "unix:///nope/engine.sock" }), /\/nope\/engine\.sock: there is no such socket/],
	["a port where nothing listens", async () => ({ host: "tcp://127.0.0.1:9" }), /127\.0\.0\.1:9: connection refused/],
	[
		"a server that answers HTML",
		async () => {
			const stub = await stubServer((socket) =>
				socket.end("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html></html>"),
			);
			return { host: stub.host, stub };
		},
		/./,
	],
	[
		"an engine that answers 500 to everything",
		async () => {
			const stub = await stubServer((socket) => socket.end(engineAnswer(500, { message: "it is on fire" })));
			return { host: stub.host, stub };
		},
		/on fire/,
	],
	[
		"an engine that accepts and never answers",
		async () => {
			const stub = await stubServer(() => {});
			return { host: stub.host, stub };
		},
		/no engine answers/,
	],
];

describe.each(KINDS)("%s", (kind, start, message) => {
	test("is one line on stderr, nothing on stdout, a status of its own, and soon", async () => {
		const root = join(tempDirectory(), "root");
		const { host, stub } = await start();
		const env = { DOCKER_HOST: host, SANDBOXES_ROOT: root };
		try {
			const started = Date.now();
			const [ls, exec, create] = await Promise.all([
				runSbx(["ls"], { env }),
				runSbx(["exec", "w", "--", "ls"], { env }),
				runSbx(["create", "w", "--image", "debian:bookworm-slim"], { env }),
			]);
			expect(Date.now() - started).toBeLessThan(40_000);
			const status = kind.includes("500") ? 1 : 3;
			expect({ kind, ls: ls.status, exec: exec.status, create: create.status }).toEqual({
				kind,
				ls: status,
				exec: 125,
				create: status,
			});
			for (const { stdout, stderr } of [ls, exec, create]) {
				expect(stdout).toBe("");
				expect(stderr).toMatch(/^sbx: [^\n]+\n$/);
				expect(stderr).toMatch(message);
			}
			const ledger = join(root, "ledger.jsonl");
			expect(existsSync(ledger) ? readFileSync(ledger, "utf8") : "").not.toContain('"sandbox"');
		} finally {
			await stub?.close();
		}
	});
});

test.skipIf(process.getuid?.() === 0)("a socket that may not be opened says so", async () => {
	const stub = await stubServer(() => {});
	try {
		await chmod(stub.socketPath, 0);
		const { status, stderr } = await runSbx(["ls"], { env: { DOCKER_HOST: stub.host } });
		expect(status).toBe(3);
		expect(stderr).toMatch(/permission denied/);
	} finally {
		await stub.close();
	}
});

import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { connectEngine } from "../../../src/engine/docker-engine.js";
import type { UnreachableCause } from "../../../src/primitives/errors.js";
import { engineAnswer, type StubServer, stubServer } from "../../support/stub-server.js";

const cleanUps: (() => void | Promise<void>)[] = [];
afterEach(async () => {
	for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

async function stub(answer: (socket: Socket) => unknown): Promise<StubServer> {
	const server = await stubServer(answer);
	cleanUps.push(() => server.close());
	return server;
}

/** `withHead`: whether calls that look at the header only fail too. */
async function expectUnavailable(host: string, reason: UnreachableCause, says: RegExp, withHead = true): Promise<void> {
	const engine = connectEngine({ host, connectTimeoutMs: 300, answerTimeoutMs: 300 });
	for (const attempt of [
		() => engine.inspectContainer("web"),
		() => engine.listContainers({ a: "b" }),
		...(withHead ? [() => engine.readContainerFile("web", "/etc/passwd")] : []),
		() => engine.ping(),
		() => engine.inspectImage("debian"),
	]) {
		const error = await attempt().then(
			() => undefined,
			(thrown: unknown) => thrown,
		);
		expect(error).toMatchObject({
			code: "engine_unavailable",
			retryable: true,
			details: { reason, address: engine.address },
			hint: expect.stringMatching(/./),
		});
		expect(String(error)).toContain(engine.address);
		expect(String(error)).toMatch(says);
		expect(String(error)).not.toContain("\n");
	}
}

describe("an engine that cannot be heard is told by its address and the cause", () => {
	test("no socket", async () => {
		await expectUnavailable("unix:///nope/docker.sock", "not_found", /no such socket/);
	});

	test("a socket this user may not open", async () => {
		const dir = mkdtempSync(join(tmpdir(), "closed-"));
		cleanUps.push(() => rmSync(dir, { recursive: true }));
		const path = join(dir, "engine.sock");
		const server = createServer();
		await new Promise<void>((resolve) => server.listen(path, resolve));
		cleanUps.push(() => void server.close());
		chmodSync(path, 0);
		chmodSync(dir, 0o755);
		const root = process.geteuid?.() === 0;
		if (root) process.seteuid?.(1000);
		try {
			await expectUnavailable(`unix://${path}`, "permission", /permission denied/);
		} finally {
			if (root) process.seteuid?.(0);
		}
	});

	test("a port that refuses", async () => {
		const server = createServer();
		await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
		const address = server.address();
		const port = typeof address === "object" && address ? address.port : 0;
		await new Promise((resolve) => server.close(resolve));
		await expectUnavailable(`tcp://127.0.0.1:${port}`, "refused", /refused/);
	});

	test("a host name nobody knows", async () => {
		await expectUnavailable("tcp://no-such-host.invalid:2375", "not_found", /not known/);
	});

	test("one that accepts and stays silent", async () => {
		await expectUnavailable((await stub(() => {})).host, "timeout", /no answer within 300 ms/);
	});

	test("one that begins its answer and stays silent", async () => {
		const { host } = await stub((socket) =>
			socket.write(engineAnswer(200, []).replace("[]", "").replace("2\r\n", "9\r\n")),
		);
		await expectUnavailable(host, "timeout", /no answer within 300 ms/, false);
	});

	test("one that closes without an answer", async () => {
		await expectUnavailable((await stub((socket) => socket.end())).host, "closed", /without an answer/);
	});

	test("one that closes in the middle of its answer", async () => {
		const answer = engineAnswer(200, [{ Id: "x".repeat(100) }]);
		for (const cut of [answer.length - 1, answer.length - 50, 30, 3])
			await expectUnavailable(
				(await stub((socket) => socket.end(answer.slice(0, cut)))).host,
				"closed",
				/closed/,
				false,
			);
	});

	test("one that resets the connection", async () => {
		await expectUnavailable((await stub((socket) => socket.destroy())).host, "closed", /closed/);
	});

	test("a web server, whatever its status", async () => {
		for (const status of [200, 301, 403, 404, 500, 502]) {
			const page = `HTTP/1.1 ${status} X\r\nContent-Type: text/html\r\n\r\n<html>It works!</html>`;
			await expectUnavailable(
				(await stub((socket) => socket.end(page))).host,
				"not_an_engine",
				/form|Api-Version|does not tell/,
			);
		}
	});

	test("one that does not speak HTTP", async () => {
		await expectUnavailable(
			(await stub((socket) => socket.end("220 mail ready\r\n"))).host,
			"not_an_engine",
			/not HTTP/,
		);
	});

	test("one whose header has no end", async () => {
		const { host } = await stub((socket) => socket.write(`HTTP/1.1 200 OK\r\nX: ${"y".repeat(100_000)}`));
		await expectUnavailable(host, "not_an_engine", /header is over/);
	});
});

describe("an engine that answers oddly", () => {
	test("an empty 500 of a web server is no engine's, a 500 of an engine is a refusal with its own sentence", async () => {
		const bare = await stub((socket) => socket.end("HTTP/1.1 500 Oops\r\n\r\n"));
		await expectUnavailable(bare.host, "not_an_engine", /HTTP 500/);
		const { host } = await stub((socket) => socket.end(engineAnswer(500, { message: "the disk is full" })));
		await expect(connectEngine({ host }).listContainers({})).rejects.toMatchObject({
			code: "engine_failed",
			message: "listing containers: the disk is full",
			details: { status: 500, failure: "server_error" },
		});
	});

	test("JSON of another form is no engine's", async () => {
		const { host } = await stub((socket) => socket.end("HTTP/1.1 200 OK\r\n\r\n{}"));
		await expect(connectEngine({ host }).listContainers({})).rejects.toMatchObject({
			details: { reason: "not_an_engine" },
		});
		await expect(connectEngine({ host }).inspectContainer("a")).rejects.toMatchObject({
			details: { reason: "not_an_engine" },
		});
	});

	test("one older than what we speak is refused with its version", async () => {
		const { host } = await stub((socket) => socket.end(engineAnswer(200, []).replace("1.41", "1.40")));
		await expect(connectEngine({ host }).listContainers({})).rejects.toMatchObject({
			code: "unsupported",
			message: expect.stringContaining("1.40"),
		});
	});

	test("an answer in chunks, byte by byte, is put together", async () => {
		const body = "\r\n1\r\n[\r\n1;ext=1\r\n]\r\n0\r\nTrailer: x\r\n\r\n";
		const { host } = await stub(async (socket) => {
			for (const byte of `HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nTransfer-Encoding: chunked\r\n${body}`) {
				socket.write(byte);
				await new Promise((resolve) => setImmediate(resolve));
			}
		});
		expect(await connectEngine({ host }).listContainers({})).toEqual([]);
	});

	test("an answer that lasts until the close is read whole", async () => {
		const { host } = await stub((socket) => socket.end("HTTP/1.0 200 OK\r\nApi-Version: 1.41\r\n\r\n[]"));
		expect(await connectEngine({ host }).listContainers({})).toEqual([]);
	});

	test("an abort during a call rejects with its reason and closes the connection", async () => {
		const controller = new AbortController();
		const reason = new Error("enough");
		let closed: Promise<unknown> = Promise.resolve();
		const { host } = await stub((socket) => {
			closed = new Promise((resolve) => socket.once("close", resolve));
			controller.abort(reason);
		});
		await expect(connectEngine({ host }).ping({ signal: controller.signal })).rejects.toBe(reason);
		await closed;
	});

	test("no call names an API version, and each leaves the connection after one answer", async () => {
		const server = await stub((socket) => socket.write(engineAnswer(200, [])));
		await connectEngine({ host: server.host }).listContainers({ "a=b": "c" });
		expect(server.requests[0]).toMatch(/^GET \/containers\/json\?all=1&filters=\S+ HTTP\/1\.1\r\n/);
		expect(server.requests[0]).toContain("Connection: close\r\n");
	});
});

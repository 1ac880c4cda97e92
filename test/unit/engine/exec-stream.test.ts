import type { Socket } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { connectEngine } from "../../../src/engine/docker-engine.js";
import type { ExecSink } from "../../../src/engine/engine.js";
import { engineAnswer, type StubServer, stubServer } from "../../support/stub-server.js";

const servers: StubServer[] = [];
afterEach(async () => {
	for (const server of servers.splice(0)) await server.close();
});

const UPGRADED = "HTTP/1.1 101 UPGRADED\r\nApi-Version: 1.41\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n";

function frame(payload: Buffer): Buffer {
	const header = Buffer.alloc(8);
	header.writeUInt8(1, 0);
	header.writeUInt32BE(payload.length, 4);
	return Buffer.concat([header, payload]);
}

/** An exec of which the other side is played by `play`. */
async function execWith(play: (socket: Socket) => void, sink: Partial<ExecSink> = {}, stdin = true) {
	const server = await stubServer((socket, request) => {
		if (request.includes("/start ")) play(socket);
		else socket.end(engineAnswer(201, { Id: "e1" }));
	});
	servers.push(server);
	const engine = connectEngine({ host: server.host });
	return await engine.exec("box", { argv: ["x"], env: {}, stdin }, { onStdout() {}, onStderr() {}, ...sink });
}

describe("the stream of a command", () => {
	test("bytes that come with the header are not lost", async () => {
		let text = "";
		const exec = await execWith(
			(socket) => socket.end(Buffer.concat([Buffer.from(UPGRADED), frame(Buffer.from("early"))])),
			{
				onStdout: (chunk) => {
					text += chunk;
				},
			},
		);
		await exec.ended;
		expect(text).toBe("early");
	});

	/** Says much, then closes with input unread: that resets the connection. */
	const speaksAndResets = (payload: Buffer) => (socket: Socket) => {
		socket.pause();
		socket.write(UPGRADED);
		socket.write(frame(payload));
		setTimeout(() => socket.destroy(), 50);
	};

	test("a reset because input was left unread is an end once all output is there", async () => {
		let bytes = 0;
		const exec = await execWith(speaksAndResets(Buffer.alloc(150_000)), {
			onStdout: (chunk) => {
				bytes += chunk.length;
			},
		});
		// Enough to be left unread, and little enough to be written before the other side closes.
		void exec.write(Buffer.alloc(100_000));
		await exec.ended;
		expect(bytes).toBe(150_000);
	});

	test("a reset that may have cost output is a break", async () => {
		const exec = await execWith(speaksAndResets(Buffer.alloc(180_000)), {
			onStdout: () => new Promise((resolve) => setTimeout(resolve, 250)),
		});
		void exec.write(Buffer.alloc(5_000_000));
		await expect(exec.ended).rejects.toMatchObject({ code: "engine_unavailable", details: { reason: "closed" } });
	});

	test("an end inside a frame is a break", async () => {
		const exec = await execWith((socket) =>
			socket.end(Buffer.concat([Buffer.from(UPGRADED), frame(Buffer.from("cut off")).subarray(0, 10)])),
		);
		await expect(exec.ended).rejects.toMatchObject({ code: "engine_unavailable", details: { reason: "closed" } });
	});

	test("a write that nobody reads ends with the command", async () => {
		let other: Socket | undefined;
		const exec = await execWith((socket) => {
			other = socket;
			socket.pause();
			socket.write(UPGRADED);
		});
		const written = exec.write(Buffer.alloc(50_000_000));
		other?.end();
		await exec.ended;
		await written;
		await exec.write(Buffer.from("more"));
		exec.endInput();
	});

	test("a refusal in place of the stream keeps the engine's sentence", async () => {
		const attempt = execWith((socket) => socket.end(engineAnswer(409, { message: "Container box is not running" })));
		await expect(attempt).rejects.toMatchObject({
			code: "engine_failed",
			details: { failure: "not_running" },
			message: expect.stringContaining("Container box is not running"),
		});
	});
});

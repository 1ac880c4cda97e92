/** A server on a Unix socket that does with each connection what a test says: an engine that misbehaves. */
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface StubServer {
	readonly host: string;
	readonly socketPath: string;
	/** What the clients sent, by connection. */
	readonly requests: string[];
	close(): Promise<void>;
}

/** Starts one; `answer` is called when the first bytes of a connection have come. */
export async function stubServer(answer: (socket: Socket, request: string) => unknown): Promise<StubServer> {
	const dir = await mkdtemp(join(tmpdir(), "stub-"));
	const socketPath = join(dir, "engine.sock");
	const requests: string[] = [];
	const sockets = new Set<Socket>();
	const server: Server = createServer((socket) => {
		sockets.add(socket);
		socket.on("error", () => {});
		socket.on("close", () => sockets.delete(socket));
		socket.once("data", (data) => {
			requests.push(data.toString());
			answer(socket, data.toString());
		});
	});
	await new Promise<void>((resolve) => server.listen(socketPath, resolve));
	const close = async (): Promise<void> => {
		for (const socket of sockets) socket.destroy();
		await new Promise<void>((resolve) => server.close(() => resolve()));
		await rm(dir, { recursive: true, force: true });
	};
	return { host: `unix://${socketPath}`, socketPath, requests, close };
}

/** An answer as an engine gives it. */
export function engineAnswer(status: number, body: unknown, headers: readonly string[] = []): string {
	const text = typeof body === "string" ? body : JSON.stringify(body);
	return [
		`HTTP/1.1 ${status} Word`,
		"Api-Version: 1.41",
		"Content-Type: application/json",
		`Content-Length: ${Buffer.byteLength(text)}`,
		...headers,
		"",
		text,
	].join("\r\n");
}

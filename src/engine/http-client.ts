/**
 * A small HTTP client over node:net: one short connection a call, and upgraded connections for streams.
 *
 * node:http is not used here: loading it costs a command line program more than a whole call to the engine does.
 */
import type { Socket } from "node:net";
import { throwIfAborted } from "../primitives/abort.js";
import type { EngineAddress } from "./address.js";
import { openSocket } from "./connection.js";
import { unavailable, unavailableBecause } from "./engine-errors.js";
import { HttpFormatError, type ResponseHead, ResponseReader, startsRawStream } from "./http-response.js";

/** Up to here a call may wait for the connection, and for the whole answer. */
export const DEFAULT_CONNECT_TIMEOUT_MS = 10_000;
export const DEFAULT_ANSWER_TIMEOUT_MS = 30_000;
const MAX_HEAD_BYTES = 64 * 1024;
const MAX_BODY_BYTES = 64 * 1024 * 1024;

export interface HttpRequest {
	readonly method: "GET" | "HEAD" | "POST" | "DELETE";
	/** Path and query, encoded. */
	readonly target: string;
	/** Sent as JSON. */
	readonly body?: unknown;
	/** For the whole call, from its beginning to the end of the answer. */
	readonly timeoutMs?: number | undefined;
	readonly maxBodyBytes?: number | undefined;
	readonly onHead?: ((head: ResponseHead) => void) | undefined;
	readonly signal?: AbortSignal | undefined;
}

export interface HttpResponse extends ResponseHead {
	readonly body: Buffer;
}

/** An answer after which the connection goes on as a raw stream in both directions. */
export interface UpgradedConnection {
	readonly socket: Socket;
	/** The first bytes of the stream, which came with the header. */
	readonly first: Buffer;
}

export interface HttpClientOptions {
	readonly connectTimeoutMs?: number | undefined;
	readonly answerTimeoutMs?: number | undefined;
}

export class HttpClient {
	readonly address: EngineAddress;
	readonly #connectTimeoutMs: number;
	readonly #answerTimeoutMs: number;

	constructor(address: EngineAddress, options: HttpClientOptions = {}) {
		this.address = address;
		this.#connectTimeoutMs = options.connectTimeoutMs ?? DEFAULT_CONNECT_TIMEOUT_MS;
		this.#answerTimeoutMs = options.answerTimeoutMs ?? DEFAULT_ANSWER_TIMEOUT_MS;
	}

	/** The answer, whatever its status. Throws `engine_unavailable` when none comes, and the signal's reason. */
	async request(request: HttpRequest): Promise<HttpResponse> {
		const { head, body, socket } = await this.#exchange(request, "close");
		socket.destroy();
		return { ...head, body };
	}

	/** Asks for a raw stream; an answer that is none (a refusal) comes back as it is. */
	async upgrade(request: HttpRequest): Promise<UpgradedConnection | HttpResponse> {
		const { head, body, socket, rest, raw } = await this.#exchange(request, "upgrade");
		if (raw) return { socket, first: rest };
		socket.destroy();
		return { ...head, body };
	}

	async #exchange(
		request: HttpRequest,
		connection: "close" | "upgrade",
	): Promise<{ head: ResponseHead; body: Buffer; socket: Socket; rest: Buffer; raw: boolean }> {
		const { signal } = request;
		throwIfAborted(signal);
		const address = this.address.address;
		const limitMs = request.timeoutMs ?? this.#answerTimeoutMs;
		const connectLimitMs = Math.min(this.#connectTimeoutMs, limitMs);
		const { socket, readyEvent } = await openSocket(this.address).catch((error: unknown) => {
			throw unavailableBecause(address, error);
		});
		const reader = new ResponseReader({
			headOnly: request.method === "HEAD",
			maxHeadBytes: MAX_HEAD_BYTES,
			maxBodyBytes: request.maxBodyBytes ?? MAX_BODY_BYTES,
			onHead: request.onHead,
		});
		return new Promise((resolve, reject) => {
			const timer = setTimeout(() => fail(unavailable(address, "timeout", `no answer within ${limitMs} ms`)), limitMs);
			const connectTimer = setTimeout(
				() => fail(unavailable(address, "timeout", `no connection within ${connectLimitMs} ms`)),
				connectLimitMs,
			);
			const leave = (): void => {
				clearTimeout(timer);
				clearTimeout(connectTimer);
				signal?.removeEventListener("abort", aborted);
				socket.off(readyEvent, send).off("data", take).off("end", ended).off("close", closed).off("error", failed);
				// A late error of a socket nobody reads any more must not become an uncaught exception.
				socket.on("error", ignore);
			};
			const fail = (error: unknown): void => {
				leave();
				socket.destroy();
				reject(error);
			};
			const done = (rest: Buffer): void => {
				const head = reader.head;
				if (!head) return;
				leave();
				socket.pause();
				resolve({ head, body: reader.body(), socket, rest, raw: startsRawStream(head) });
			};
			const aborted = (): void => fail(signal?.reason);
			const failed = (error: unknown): void => fail(unavailableBecause(address, error));
			const closed = (): void => fail(unavailable(address, "closed", "the connection was closed without an answer"));
			const misread = (error: unknown): void => {
				if (!(error instanceof HttpFormatError)) fail(error);
				else fail(unavailable(address, error.cutOff ? "closed" : "not_an_engine", error.message, error));
			};
			const send = (): void => {
				clearTimeout(connectTimer);
				// Never half-closed here: the engine takes that for a client that went away, and breaks the call off.
				socket.write(this.#text(request, connection));
			};
			const take = (chunk: Buffer): void => {
				try {
					const rest = reader.push(chunk);
					if (reader.done) done(rest);
				} catch (error) {
					misread(error);
				}
			};
			const ended = (): void => {
				try {
					reader.end();
					done(Buffer.alloc(0));
				} catch (error) {
					misread(error);
				}
			};
			signal?.addEventListener("abort", aborted, { once: true });
			socket.on(readyEvent, send).on("data", take).on("end", ended).on("close", closed).on("error", failed);
			if (signal?.aborted) aborted();
		});
	}

	#text(request: HttpRequest, connection: "close" | "upgrade"): string {
		const host = this.address.kind === "unix" ? "docker" : `${bracketed(this.address.host)}:${this.address.port}`;
		const lines = [
			`${request.method} ${request.target} HTTP/1.1`,
			`Host: ${host}`,
			"User-Agent: sandboxes",
			...(connection === "close" ? ["Connection: close"] : ["Connection: Upgrade", "Upgrade: tcp"]),
		];
		const body = request.body === undefined ? "" : JSON.stringify(request.body);
		if (request.body !== undefined) lines.push("Content-Type: application/json");
		if (request.method === "POST") lines.push(`Content-Length: ${Buffer.byteLength(body)}`);
		return `${lines.join("\r\n")}\r\n\r\n${body}`;
	}
}

function bracketed(host: string): string {
	return host.includes(":") ? `[${host}]` : host;
}

function ignore(): void {}

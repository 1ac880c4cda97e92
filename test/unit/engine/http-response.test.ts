import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { HttpFormatError, ResponseReader } from "../../../src/engine/http-response.js";

const LIMITS = { headOnly: false, maxHeadBytes: 4096, maxBodyBytes: 10_000 };

function read(parts: readonly (string | Buffer)[], limits: Partial<typeof LIMITS> = {}) {
	const reader = new ResponseReader({ ...LIMITS, ...limits });
	let rest = Buffer.alloc(0);
	for (const part of parts) rest = Buffer.concat([rest, reader.push(Buffer.from(part as string))]);
	if (!reader.done) reader.end();
	return {
		status: reader.head?.status,
		headers: reader.head?.headers,
		body: reader.body().toString(),
		rest: rest.toString(),
	};
}

function chunked(body: Buffer, sizes: readonly number[]): string {
	let text = "";
	let at = 0;
	for (const size of [...sizes, body.length]) {
		const part = body.subarray(at, at + size);
		at += part.length;
		if (part.length > 0) text += `${part.length.toString(16)}\r\n${part.toString("latin1")}\r\n`;
	}
	return `${text}0\r\n\r\n`;
}

describe("an HTTP answer", () => {
	test("reads the same however it arrives, in each of the three forms of a body", async () => {
		await fc.assert(
			fc.property(
				fc.string({ maxLength: 300 }),
				fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 20 }),
				fc.array(fc.integer({ min: 1, max: 25 }), { maxLength: 60 }),
				(text, sizes, cuts) => {
					const body = Buffer.from(text);
					const head = "HTTP/1.1 200 OK\r\nX-One: 1\r\n";
					for (const bytes of [
						Buffer.concat([Buffer.from(`${head}Content-Length: ${body.length}\r\n\r\n`), body]),
						Buffer.from(`${head}Transfer-Encoding: chunked\r\n\r\n${chunked(body, sizes)}`, "latin1"),
						Buffer.concat([Buffer.from(`${head}\r\n`), body]),
					]) {
						const parts: Buffer[] = [];
						let at = 0;
						for (const size of cuts) {
							parts.push(bytes.subarray(at, at + size));
							at += size;
						}
						parts.push(bytes.subarray(at));
						const answer = read(parts);
						expect(answer).toMatchObject({ status: 200, body: text, rest: "" });
						expect(answer.headers?.get("x-one")).toBe("1");
					}
				},
			),
		);
	});

	test("arbitrary bytes give an answer or a refusal, nothing else", async () => {
		await fc.assert(
			fc.property(fc.uint8Array({ maxLength: 200 }), fc.boolean(), (bytes, likely) => {
				try {
					read([likely ? "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" : "", Buffer.from(bytes)]);
				} catch (error) {
					expect(error).toBeInstanceOf(HttpFormatError);
				}
			}),
		);
	});

	test("what follows a switch of protocols is the stream's", () => {
		expect(read(["HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\nfirst bytes"])).toMatchObject({
			status: 101,
			rest: "first bytes",
		});
		expect(read(["HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\nfirst"])).toMatchObject({
			status: 200,
			rest: "first",
		});
	});

	test("204, 304 and the answer to HEAD have no body", () => {
		expect(read(["HTTP/1.1 204 No\r\n\r\n"])).toMatchObject({ status: 204, body: "" });
		expect(read(["HTTP/1.1 304 No\r\nContent-Length: 5\r\n\r\n"])).toMatchObject({ status: 304, body: "" });
		expect(read(["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"], { headOnly: true })).toMatchObject({ body: "" });
	});

	test("an announcement before the answer is passed over", () => {
		expect(read(["HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"])).toMatchObject({
			body: "x",
		});
	});

	test.each([
		["too large by its length", "HTTP/1.1 200 OK\r\nContent-Length: 10001\r\n\r\n"],
		["too large by a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n"],
		["too large as it comes", `HTTP/1.1 200 OK\r\n\r\n${"x".repeat(10_001)}`],
		["a length that is no number", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"],
		["a chunk size that is no number", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"],
		["a chunk longer than it said", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n"],
		["another protocol", "SSH-2.0-OpenSSH\r\n"],
		["another version", "HTTP/2 200\r\n\r\n"],
	])("%s is refused", (_, text) => {
		expect(() => read([text])).toThrow(HttpFormatError);
	});
});

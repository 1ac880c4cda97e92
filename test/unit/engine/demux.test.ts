import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Demuxer } from "../../../src/engine/demux.js";

function frame(stream: number, payload: string | Buffer): Buffer {
	const body = Buffer.from(payload);
	const header = Buffer.alloc(8);
	header.writeUInt8(stream, 0);
	header.writeUInt32BE(body.length, 4);
	return Buffer.concat([header, body]);
}

class Gathered {
	readonly out: Buffer[] = [];
	readonly err: Buffer[] = [];
	onStdout(chunk: Buffer): void {
		this.out.push(Buffer.from(chunk));
	}
	onStderr(chunk: Buffer): void {
		this.err.push(Buffer.from(chunk));
	}
	get text(): readonly [string, string] {
		return [Buffer.concat(this.out).toString("latin1"), Buffer.concat(this.err).toString("latin1")];
	}
}

function cut(bytes: Buffer, sizes: readonly number[]): Buffer[] {
	const chunks: Buffer[] = [];
	let at = 0;
	for (const size of sizes) {
		chunks.push(bytes.subarray(at, at + size));
		at += size;
	}
	chunks.push(bytes.subarray(at));
	return chunks;
}

const frames = fc.array(fc.record({ stream: fc.constantFrom(1, 2), payload: fc.uint8Array({ maxLength: 40 }) }), {
	maxLength: 40,
});
const cuts = fc.array(fc.integer({ min: 0, max: 30 }), { maxLength: 60 });

describe("multiplexed output", () => {
	test("however it is cut, each stream gets exactly its bytes in order", async () => {
		await fc.assert(
			fc.property(frames, cuts, (list, sizes) => {
				const bytes = Buffer.concat(list.map(({ stream, payload }) => frame(stream, Buffer.from(payload))));
				const sink = new Gathered();
				const demuxer = new Demuxer(sink);
				for (const chunk of cut(bytes, sizes)) expect(demuxer.push(chunk)).toBeUndefined();
				demuxer.end();
				const of = (wanted: number) =>
					Buffer.concat(list.filter(({ stream }) => stream === wanted).map(({ payload }) => payload)).toString(
						"latin1",
					);
				expect(sink.text).toEqual([of(1), of(2)]);
			}),
		);
	});

	test("a sink that holds back gets one part at a time, whatever the cuts", async () => {
		await fc.assert(
			fc.asyncProperty(frames, cuts, fc.integer({ min: 1, max: 3 }), async (list, sizes, every) => {
				const sink = new Gathered();
				let open = 0;
				let count = 0;
				const slow =
					(take: (chunk: Buffer) => void) =>
					(chunk: Buffer): void | Promise<void> => {
						expect(open).toBe(0);
						take(chunk);
						count += 1;
						if (count % every !== 0) return;
						open += 1;
						return Promise.resolve().then(() => {
							open -= 1;
						});
					};
				const demuxer = new Demuxer({
					onStdout: slow((c) => sink.onStdout(c)),
					onStderr: slow((c) => sink.onStderr(c)),
				});
				const bytes = Buffer.concat(list.map(({ stream, payload }) => frame(stream, Buffer.from(payload))));
				for (const chunk of cut(bytes, sizes)) await demuxer.push(chunk);
				const all = Buffer.concat(list.filter(({ stream }) => stream === 1).map(({ payload }) => payload));
				expect(sink.text[0]).toBe(all.toString("latin1"));
			}),
			{ numRuns: 50 },
		);
	});

	test("very many small frames in one chunk lose nothing, held back or not", async () => {
		for (const [size, total] of [
			[2, 64 * 1024],
			[100, 1024 * 1024],
		] as const) {
			const one = frame(1, Buffer.alloc(size, "x"));
			const count = Math.ceil(total / size);
			const bytes = Buffer.concat(Array.from({ length: count }, () => one));
			for (const hold of [false, true]) {
				let seen = 0;
				const onStdout = (chunk: Buffer): void | Promise<void> => {
					seen += chunk.length;
					return hold ? Promise.resolve() : undefined;
				};
				const demuxer = new Demuxer({ onStdout, onStderr() {} });
				await demuxer.push(bytes);
				demuxer.end();
				expect(seen).toBe(count * size);
			}
		}
	});

	test("a long frame is handed on as it comes, in views of what was pushed", () => {
		const parts: Buffer[] = [];
		const demuxer = new Demuxer({ onStdout: (chunk) => void parts.push(chunk), onStderr() {} });
		const bytes = frame(1, Buffer.alloc(100, "y"));
		const first = bytes.subarray(0, 58);
		void demuxer.push(first);
		expect(parts.map((part) => part.length)).toEqual([50]);
		expect(parts[0]?.buffer).toBe(first.buffer);
		expect(demuxer.atBoundary).toBe(false);
	});

	test("an end inside a frame, bytes that are no frames and the engine's own failure are told", () => {
		const demuxer = () => new Demuxer({ onStdout() {}, onStderr() {} });
		const cutOff = demuxer();
		void cutOff.push(frame(1, "abc").subarray(0, 10));
		expect(() => cutOff.end()).toThrow(/middle of a frame/);
		expect(() => demuxer().push(Buffer.from("plain text, not frames"))).toThrow(/form of frames/);
		const failed = demuxer();
		void failed.push(frame(3, "the log is gone"));
		expect(() => failed.end()).toThrow("the log is gone");
	});
});

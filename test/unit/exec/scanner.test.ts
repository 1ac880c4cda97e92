import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { SentinelScanner } from "../../../src/exec/scanner.js";

const NONCE = "0123456789abcdef0123456789abcdef";

function scan(bytes: Buffer, cuts: readonly number[]): { scanner: SentinelScanner; data: Buffer } {
	const scanner = new SentinelScanner(NONCE);
	const data: Buffer[] = [];
	let from = 0;
	for (const to of [...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]) {
		data.push(...scanner.push(Buffer.from(bytes.subarray(from, to))));
		from = to;
	}
	data.push(...scanner.flush());
	return { scanner, data: Buffer.concat(data) };
}

/** Bytes in which beginnings of the nonce, and whole nonces, are likely. */
const hostile = fc
	.array(
		fc.oneof(
			fc.uint8Array({ maxLength: 20 }).map((bytes) => Buffer.from(bytes)),
			fc.nat(NONCE.length).map((length) => Buffer.from(NONCE.slice(0, length))),
			fc
				.constantFrom(`${NONCE} `, `${NONCE} x\n`, `${NONCE} 1234\n`, `${NONCE}\n`, NONCE + NONCE)
				.map((text) => Buffer.from(text)),
		),
		{ maxLength: 12 },
	)
	.map((parts) => Buffer.concat(parts));
const cuts = fc.array(fc.nat(400), { maxLength: 30 });

describe("the scanner", () => {
	test("gives back the command's bytes exactly, however they are cut", () => {
		fc.assert(
			fc.property(hostile, cuts, fc.nat(255), fc.boolean(), (payload, where, code, bySignal) => {
				// A payload that ends in a nonce would make one word of it and the runner's line.
				const body = Buffer.concat([payload, Buffer.from("|")]);
				const end = `${code}${bySignal ? " s" : ""}`;
				const { scanner, data } = scan(
					Buffer.concat([Buffer.from(`${NONCE} P17\n`), body, Buffer.from(`${NONCE} ${end}\n`)]),
					where,
				);
				expect(data.equals(body)).toBe(true);
				expect(scanner.start).toBe("17");
				expect(scanner.end).toBe(end);
			}),
			{ numRuns: 500 },
		);
	});

	test("holds nothing back that cannot be the beginning of a line of the runner", () => {
		const scanner = new SentinelScanner(NONCE);
		scanner.push(Buffer.from(`${NONCE} P17\n`));
		expect(Buffer.concat(scanner.push(Buffer.from("prompt> "))).toString()).toBe("prompt> ");
		expect(Buffer.concat(scanner.push(Buffer.from("see 0123"))).toString()).toBe("see ");
		expect(Buffer.concat(scanner.push(Buffer.from("!"))).toString()).toBe("0123!");
	});

	test("keeps what comes before the first line apart, and drops what comes after the last", () => {
		const { scanner, data } = scan(Buffer.from(`warning\n${NONCE} P1\r\nout${NONCE} 0\nlate`), [3, 9, 50]);
		expect(scanner.preamble).toBe("warning\n");
		expect(data.toString()).toBe("out");
	});

	test("knows a set-up that failed: a status without a beginning", () => {
		const { scanner, data } = scan(Buffer.from(`${NONCE} 125\n`), []);
		expect(scanner.start).toBeUndefined();
		expect(scanner.end).toBe("125");
		expect(data.length).toBe(0);
	});

	test("takes a stream that breaks off as it is", () => {
		const { scanner, data } = scan(Buffer.from(`${NONCE} P1\nout${NONCE} 1`), []);
		expect(scanner.end).toBeUndefined();
		expect(data.toString()).toBe(`out${NONCE} 1`);
	});
});

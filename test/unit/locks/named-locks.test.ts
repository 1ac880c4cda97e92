import {
	mkdirSync,
	readdirSync,
	readFileSync,
	readlinkSync,
	rmSync,
	symlinkSync,
	utimesSync,
	writeFileSync,
} from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { toRecord } from "../../../src/locks/lock-link.js";
import { NamedLocks } from "../../../src/locks/named-locks.js";
import { sleep } from "../../../src/primitives/abort.js";
import { isSandboxError } from "../../../src/primitives/errors.js";
import { thisOwner } from "../../../src/primitives/owner.js";
import { type Child, startChild } from "../../support/children.js";
import { tempDirectory } from "../../support/temp-directory.js";

const children: Child[] = [];

function start(...args: readonly (string | number)[]): Child {
	const child = startChild("lock-worker.ts", args.map(String));
	children.push(child);
	return child;
}

afterEach(() => {
	for (const child of children.splice(0)) child.kill("SIGKILL");
});

async function failure(promise: Promise<unknown>): Promise<unknown> {
	return promise.then(
		() => undefined,
		(error: unknown) => error,
	);
}

/** The one lock that is there. */
function lockIn(directory: string): string {
	return join(directory, readdirSync(directory).find((name) => name.endsWith(".lock")) ?? "");
}

describe("in one process", () => {
	test("one at a time holds a name, in the order of the calls, over all instances", async () => {
		const directory = tempDirectory();
		const [a, b] = [new NamedLocks(directory), new NamedLocks(directory)];
		const order: number[] = [];
		let inside = 0;
		await Promise.all(
			[0, 1, 2, 3, 4].map((n) =>
				(n % 2 ? a : b).hold("w", async () => {
					inside += 1;
					expect(inside).toBe(1);
					await sleep(2);
					order.push(n);
					inside -= 1;
				}),
			),
		);
		expect(order).toEqual([0, 1, 2, 3, 4]);
		expect(readdirSync(directory)).toEqual([]);
	});

	test("different names do not wait for each other", async () => {
		const locks = new NamedLocks(tempDirectory());
		const result = await locks.hold("a", () => locks.hold("b", async () => "both", { timeoutMs: 5000 }));
		expect(result).toBe("both");
	});

	test("any name is a lock of its own", async () => {
		const directory = tempDirectory();
		await fc.assert(
			fc.asyncProperty(fc.uniqueArray(fc.string({ unit: "binary" }), { minLength: 2, maxLength: 4 }), async (names) => {
				const locks = new NamedLocks(directory);
				const nested = names.reduceRight<() => Promise<number>>(
					(inner, name) => () => locks.hold(name, inner, { timeoutMs: 2000 }),
					async () => readdirSync(directory).length,
				);
				expect(await nested()).toBe(names.length);
			}),
			{ numRuns: 20 },
		);
		const odd = ["", ".", "..", "/", "a/../b", "A", "a", "\u0000", "\ud800", "\ud801", "x".repeat(5000), "__proto__"];
		const locks = new NamedLocks(directory);
		const nested = odd.reduceRight<() => Promise<number>>(
			(inner, name) => () => locks.hold(name, inner, { timeoutMs: 2000 }),
			async () => readdirSync(directory).length,
		);
		expect(await nested()).toBe(odd.length);
		expect(readdirSync(directory)).toEqual([]);
	});

	test("what work throws comes through, and the lock is given back", async () => {
		const directory = tempDirectory();
		const locks = new NamedLocks(directory);
		const thrown = new Error("mine");
		const work = async (): Promise<never> => {
			rmSync(lockIn(directory));
			throw thrown;
		};
		expect(await failure(locks.hold("w", work))).toBe(thrown);
		expect(await locks.hold("w", async () => 1)).toBe(1);
	});

	test("waiting ends with lock_timeout and the holder's pid, or with the caller's own reason", async () => {
		const locks = new NamedLocks(tempDirectory());
		let end: () => void = () => {};
		const holding = locks.hold("w", () => new Promise<void>((resolve) => (end = resolve)));
		const timeout = await failure(locks.hold("w", async () => {}, { timeoutMs: 20 }));
		if (!isSandboxError(timeout, "lock_timeout")) throw timeout;
		expect(timeout.details).toEqual({ lock: "w", timeoutMs: 20, holderPid: process.pid });
		const reason = new Error("enough");
		expect(await failure(locks.hold("w", async () => {}, { signal: AbortSignal.abort(reason) }))).toBe(reason);
		const controller = new AbortController();
		const waiting = locks.hold("w", async () => {}, { signal: controller.signal });
		setTimeout(() => controller.abort(reason), 10);
		expect(await failure(waiting)).toBe(reason);
		end();
		await holding;
		expect(await locks.hold("w", async () => 1)).toBe(1);
	});

	test("the caller's signal reaches work under way", async () => {
		const locks = new NamedLocks(tempDirectory());
		const controller = new AbortController();
		const reason = new Error("enough");
		const held = locks.hold("w", (signal) => sleep(60_000, signal), { signal: controller.signal });
		setTimeout(() => controller.abort(reason), 20);
		expect(await failure(held)).toBe(reason);
	});
});

describe("a lock that is lost", () => {
	test("aborts the work's signal, and the call rejects although the work returned", async () => {
		const directory = tempDirectory();
		const locks = new NamedLocks(directory);
		let seen: unknown;
		const error = await failure(
			locks.hold("w", async (signal) => {
				rmSync(lockIn(directory));
				seen = await failure(sleep(10_000, signal));
				return "done";
			}),
		);
		expect(isSandboxError(error, "lock_lost")).toBe(true);
		expect(seen).toBe(error);
	});

	test("rejects also where the work was done before anybody noticed, and leaves the next holder's lock alone", async () => {
		const directory = tempDirectory();
		const error = await failure(
			new NamedLocks(directory).hold("w", async () => {
				const path = lockIn(directory);
				rmSync(path);
				symlinkSync(JSON.stringify({ ...thisOwner(), hold: "another" }), path);
			}),
		);
		expect(isSandboxError(error, "lock_lost")).toBe(true);
		expect(readlinkSync(lockIn(directory))).toContain("another");
	});
});

describe("between processes", { timeout: 60_000 }, () => {
	test("one at a time holds a name, and nothing is left behind", async () => {
		const directory = tempDirectory();
		const file = join(tempDirectory(), "count");
		writeFileSync(file, "0");
		const workers = [1, 2, 3, 4].map(() => start(directory, "w", "count", 20, file));
		await Promise.all(workers.map((worker) => worker.printed("up")));
		for (const worker of workers) worker.send("go");
		expect(await Promise.all(workers.map((worker) => worker.ended()))).toEqual([0, 0, 0, 0]);
		expect(readFileSync(file, "utf8")).toBe("80");
		expect(readdirSync(directory)).toEqual([]);
	});

	test("a live holder is waited for and named", async () => {
		const directory = tempDirectory();
		const holder = start(directory, "w", "keep");
		await holder.printed("held");
		const error = await failure(new NamedLocks(directory).hold("w", async () => {}, { timeoutMs: 100 }));
		if (!isSandboxError(error, "lock_timeout")) throw error;
		expect(error.details.holderPid).toBe(holder.pid);
		expect(error.message).toContain(String(holder.pid));
	});

	test("a killed holder costs the next one next to nothing, and each of several waiters gets its turn alone", async () => {
		const directory = tempDirectory();
		const holder = start(directory, "w", "keep");
		await holder.printed("held");
		const file = join(tempDirectory(), "count");
		writeFileSync(file, "0");
		const others = [1, 2, 3].map(() => start(directory, "w", "count", 5, file));
		await Promise.all(others.map((other) => other.printed("up")));
		for (const other of others) other.send("go");
		holder.kill("SIGKILL");
		await holder.ended();
		const startedAt = performance.now();
		await new NamedLocks(directory).hold("w", async () => {});
		expect(performance.now() - startedAt).toBeLessThan(1000);
		expect(await Promise.all(others.map((other) => other.ended()))).toEqual([0, 0, 0]);
		expect(readFileSync(file, "utf8")).toBe("15");
		expect(readdirSync(directory)).toEqual([]);
	});

	test("a caller's own listener for a signal is all that hears it", async () => {
		const before = process.eventNames().filter((name) => String(name).startsWith("SIG")).length;
		await new NamedLocks(tempDirectory()).hold("w", async () => {});
		expect(process.eventNames().filter((name) => String(name).startsWith("SIG")).length).toBe(before);
		const directory = tempDirectory();
		const holder = start(directory, "w", "once");
		await holder.printed("held");
		holder.kill("SIGTERM");
		await holder.printed("told");
		expect(await holder.ended()).toBe(0);
	});

	test("a held lock does not keep a process alive, and goes with it", async () => {
		const directory = tempDirectory();
		const holder = start(directory, "w", "leave");
		await holder.printed("held");
		expect(await holder.ended()).toBe(0);
		expect(readdirSync(directory)).toEqual([]);
	});

	test("what dead processes left, of this name or another, is removed and does not stand in the way", async () => {
		const directory = tempDirectory();
		let path = "";
		await new NamedLocks(directory).hold("w", async () => {
			path = lockIn(directory);
		});
		const dead = toRecord({ ...thisOwner(), startTime: 1 }, "gone");
		expect(dead.length).toBeLessThan(60);
		for (const left of [path, `${path}.break`, join(directory, "other-1.lock")]) symlinkSync(dead, left);
		expect(await new NamedLocks(directory).hold("w", async () => 1, { timeoutMs: 5000 })).toBe(1);
		expect(readdirSync(directory)).toEqual([]);
	});

	test("a lock without an owner's record is taken away after it was watched, whatever its age claims", async () => {
		const directory = tempDirectory();
		const locks = new NamedLocks(directory);
		let path = "";
		await locks.hold("w", async () => {
			path = lockIn(directory);
		});
		mkdirSync(path);
		utimesSync(path, 1, 1);
		expect(isSandboxError(await failure(locks.hold("w", async () => {}, { timeoutMs: 200 })), "lock_timeout")).toBe(
			true,
		);
		expect(await locks.hold("w", async () => 1, { timeoutMs: 10_000 })).toBe(1);
	});
});

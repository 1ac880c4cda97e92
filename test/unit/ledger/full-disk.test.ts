import { afterEach, expect, test, vi } from "vitest";
import { isSandboxError } from "../../../src/primitives/errors.js";
import { openCounts } from "../../support/ledger-rows.js";
import { tempDirectory } from "../../support/temp-directory.js";

/** How many bytes the disk still takes. */
const disk = vi.hoisted(() => ({ free: Number.POSITIVE_INFINITY }));

vi.mock("node:fs", async (original) => {
	const fs = await original<typeof import("node:fs")>();
	return {
		...fs,
		writeSync(fd: number, bytes: Buffer): number {
			const taken = Math.min(disk.free, bytes.length);
			disk.free -= taken;
			if (taken === 0) throw Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" });
			return fs.writeSync(fd, bytes, 0, taken);
		},
	};
});

afterEach(() => {
	disk.free = Number.POSITIVE_INFINITY;
});

async function failure(promise: Promise<unknown>): Promise<unknown> {
	return promise.then(
		() => undefined,
		(error: unknown) => error,
	);
}

test("a full disk is told, leaves every row as it was, and nothing is in the way once there is room", async () => {
	const directory = tempDirectory();
	const [a, b] = [openCounts(directory), openCounts(directory)];
	const revision = (await a.commit("x", 0, { count: 1 })) ?? 0;
	for (const free of [0, 1, 20, 60]) {
		disk.free = free;
		const error = await failure(a.commit("x", revision, { count: 2 }));
		expect(isSandboxError(error, "ledger_unreadable")).toBe(true);
		expect((await a.get("x"))?.row.count).toBe(1);
		expect((await b.get("x"))?.row.count).toBe(1);
		expect((await openCounts(directory).get("x"))?.row.count).toBe(1);
	}
	disk.free = Number.POSITIVE_INFINITY;
	expect(await b.commit("x", revision, { count: 3 })).toBeDefined();
	expect((await a.get("x"))?.row.count).toBe(3);
});

test("of several commits in one write those that reached the disk stand, and the others are told", async () => {
	const directory = tempDirectory();
	const ledger = openCounts(directory);
	await ledger.all();
	disk.free = 250;
	const results = await Promise.allSettled([1, 2, 3, 4].map((count) => ledger.commit(`k${count}`, 0, { count })));
	const made = results.filter(({ status }) => status === "fulfilled").length;
	expect([1, 2, 3]).toContain(made);
	const rows = await openCounts(directory).all();
	expect([...rows.keys()]).toEqual(Array.from({ length: made }, (_, i) => `k${i + 1}`));
	expect(await ledger.all()).toEqual(rows);
});

import { describe, expect, test } from "vitest";
import { SharedWork } from "../../../src/images/shared-work.js";
import type { Progress } from "../../../src/primitives/progress.js";

/** Work that ends when it is told to, or aborted. */
function work(): { run: (signal: AbortSignal) => Promise<string>; starts: () => number; end: (value: string) => void } {
	let starts = 0;
	let end: (value: string) => void = () => {};
	return {
		run: (signal) => {
			starts += 1;
			return new Promise((resolve, reject) => {
				end = resolve;
				signal.addEventListener("abort", () => reject(signal.reason));
			});
		},
		starts: () => starts,
		end: (value) => end(value),
	};
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe("work that is shared", () => {
	test("callers for one key share one run, callers for another do not", async () => {
		const shared = new SharedWork<string>();
		const [a, b] = [work(), work()];
		const results = Promise.all([shared.run("a", a.run), shared.run("a", a.run), shared.run("b", b.run)]);
		await turn();
		a.end("A");
		b.end("B");
		expect(await results).toEqual(["A", "A", "B"]);
		expect([a.starts(), b.starts()]).toEqual([1, 1]);
	});

	test("all callers get the same failure, and the next one tries again", async () => {
		const shared = new SharedWork<string>();
		const failing = (): Promise<string> => Promise.reject(new Error("no"));
		const settled = await Promise.allSettled([shared.run("k", failing), shared.run("k", failing)]);
		expect(settled.map((one) => one.status)).toEqual(["rejected", "rejected"]);
		expect(await shared.run("k", async () => "yes")).toBe("yes");
	});

	test("a caller who leaves rejects with their own reason, and the others get the result", async () => {
		const shared = new SharedWork<string>();
		const controller = new AbortController();
		const one = work();
		const leaving = shared.run("k", one.run, { signal: controller.signal });
		const staying = shared.run("k", one.run);
		await turn();
		const reason = new Error("mine");
		controller.abort(reason);
		await expect(leaving).rejects.toBe(reason);
		one.end("done");
		expect(await staying).toBe("done");
	});

	test("the work is aborted when the last caller has left, and a later caller starts anew", async () => {
		const shared = new SharedWork<string>();
		const controllers = [new AbortController(), new AbortController()];
		const one = work();
		let aborted = false;
		const watched = (signal: AbortSignal): Promise<string> => {
			signal.addEventListener("abort", () => {
				aborted = true;
			});
			return one.run(signal);
		};
		const leaving = controllers.map(({ signal }) => shared.run("k", watched, { signal }));
		await turn();
		controllers[0]?.abort(new Error("first"));
		await expect(leaving[0]).rejects.toThrow("first");
		expect(aborted).toBe(false);
		controllers[1]?.abort(new Error("second"));
		await expect(leaving[1]).rejects.toThrow("second");
		expect(aborted).toBe(true);
		expect(await shared.run("k", async () => "again")).toBe("again");
	});

	test("every caller hears the progress, a late one begins with the last line", async () => {
		const shared = new SharedWork<string>();
		const heard: string[] = [];
		const one = work();
		let tell: (progress: Progress) => void = () => {};
		const speaking = (signal: AbortSignal, onProgress: (progress: Progress) => void): Promise<string> => {
			tell = onProgress;
			return one.run(signal);
		};
		const first = shared.run("k", speaking, { onProgress: ({ message }) => heard.push(`first ${message}`) });
		await turn();
		tell({ stage: "build", message: "1" });
		const second = shared.run("k", speaking, { onProgress: ({ message }) => heard.push(`second ${message}`) });
		tell({ stage: "build", message: "2" });
		one.end("x");
		await Promise.all([first, second]);
		expect(heard).toEqual(["first 1", "second 1", "first 2", "second 2"]);
	});

	test("a caller whose signal is aborted already starts nothing", async () => {
		const shared = new SharedWork<string>();
		const one = work();
		await expect(shared.run("k", one.run, { signal: AbortSignal.abort("no") })).rejects.toBe("no");
		expect(one.starts()).toBe(0);
	});
});

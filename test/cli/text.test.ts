import { PassThrough } from "node:stream";
import { describe, expect, test } from "vitest";
import { toRow } from "../../src/cli/commands/list.js";
import { toRow as toProcessRow } from "../../src/cli/commands/ps.js";
import { BrokenPipe, Outlet } from "../../src/cli/outlet.js";
import { showProgress } from "../../src/cli/progress.js";
import { toLine, toTable } from "../../src/cli/text.js";

describe("a table", () => {
	test("has upper-case heads and columns by spaces", () => {
		expect(
			toTable(
				["name", "state"],
				[
					["a", "running"],
					["long-name", "exited"],
				],
			),
		).toBe("NAME        STATE\na           running\nlong-name   exited\n");
	});

	test("of nothing is its heads", () => {
		expect(toTable(["name", "state"], [])).toBe("NAME   STATE\n");
	});

	test("a cell cannot break the line or move the cursor", () => {
		expect(toTable(["name"], [["a\nb\u001b[2Jc"]])).toBe("NAME\na bc\n");
	});
});

test("a line for people holds no control characters", () => {
	expect(toLine("a\u001b[31mred\u001b[0m\r\nb\u0007\u009bc")).toBe("ared b c");
});

describe("a background process", () => {
	const info = {
		id: "00112233445566aa",
		command: "true",
		cwd: "/workspace",
		state: "running",
		startedAt: new Date(0),
	} as const;
	const shown = (command: string | readonly string[]) => toProcessRow({ ...info, command }, 5000).at(-1);

	test("is a row, with dashes for what is not known and the status of one that has ended", () => {
		expect(toProcessRow(info, 5000)).toEqual([info.id, "-", "-", "running", "5s ago", "true"]);
		const ended = { ...info, name: "web", pid: 7, state: "exited", exitCode: 3 } as const;
		expect(toProcessRow(ended, 5000)).toEqual([info.id, "web", "7", "exited (3)", "5s ago", "true"]);
		expect(toProcessRow({ ...info, state: "lost" }, 0)[3]).toBe("lost");
	});

	test("that claims an impossible or a future start is a row all the same", () => {
		expect(toProcessRow({ ...info, startedAt: new Date(9e15) }, 0)[4]).toBe("-");
		expect(toProcessRow({ ...info, startedAt: new Date(8.64e15) }, 0)[4]).toBe("1s ago");
	});

	test("shows its words apart, and nothing of them reaches the terminal as a control character", () => {
		expect(shown(["sh", "-c", "echo a", "", "it's"])).toBe("sh -c 'echo a' '' 'it'\\''s'");
		expect(shown("a\nb\t\u001b[2Jc\u009b\u202ed\u007f")).toBe("a\\nb\\t\\u001b[2Jc\\u009b\\u202ed\\u007f");
		expect(shown(["a\u001b]0;x\u0007"])).toBe("'a\\u001b]0;x\\u0007'");
	});

	test("shows the beginning of a long command", () => {
		expect(shown("😀".repeat(200))).toBe(`${"😀".repeat(100)}…`);
	});
});

test("a sandbox without a container, or one that cannot be read, is a row with dashes", () => {
	const unknown = {
		id: null,
		image: null,
		imageId: null,
		createdAt: null,
		idleTimeoutMs: null,
		maxLifetimeMs: null,
		stopGraceMs: null,
		memoryBytes: null,
		cpus: null,
		pids: null,
		network: null,
		user: null,
		labels: {},
		ports: [],
		workspaceDir: null,
	};
	expect(toRow({ ...unknown, name: "w", state: "missing" }, 0)).toEqual(["w", "missing", "-", "-", "-", "-", "-", "-"]);
	expect(
		toRow(
			{ ...unknown, name: "w", state: "running", createdAt: new Date(0), maxLifetimeMs: 0, memoryBytes: 1024 },
			61_000,
		),
	).toEqual(["w", "running", "-", "1 KiB", "-", "1m1s", "-", "none"]);
});

describe("progress", () => {
	function view(options: { readonly isTTY: boolean; readonly quiet?: boolean; readonly times?: number[] }) {
		const stream = Object.assign(new PassThrough(), { isTTY: options.isTTY, columns: 20 });
		const times = options.times ?? [];
		const progress = showProgress(new Outlet({ open: () => stream }), options.quiet ?? false, () => times.shift() ?? 0);
		return { progress, text: () => String(stream.read() ?? "") };
	}

	test("is a plain line for each change where stderr is no terminal", () => {
		const { progress, text } = view({ isTTY: false });
		for (const message of ["Step 1/2", "Step 1/2", "Step 2/2"]) progress.sink({ stage: "build", message });
		progress.clear();
		expect(text()).toBe("build: Step 1/2\nbuild: Step 2/2\n");
	});

	test("is one line on a terminal, no wider than it, and gone at the end", () => {
		const { progress, text } = view({ isTTY: true, times: [0, 0, 1000, 1000] });
		progress.sink({ stage: "pull", message: "layers", current: 1, total: 4 });
		progress.sink({ stage: "pull", message: "a very long message indeed" });
		progress.clear();
		expect(text()).toBe("\r\u001b[Kpull: layers 25%\r\u001b[Kpull: a very long m\r\u001b[K");
	});

	test("is nothing when quiet", () => {
		const { progress, text } = view({ isTTY: true, quiet: true });
		progress.sink({ stage: "build", message: "x" });
		progress.clear();
		expect(text()).toBe("");
	});
});

describe("an outlet", () => {
	test("goes quiet when nobody reads any more, and says so once", async () => {
		const stream = new PassThrough({ highWaterMark: 1 });
		const closed: unknown[] = [];
		const outlet = new Outlet({ open: () => stream, onClosed: (reason) => closed.push(reason) });
		const waiting = outlet.write("more than it holds");
		stream.destroy(Object.assign(new Error("write EPIPE"), { code: "EPIPE" }));
		await waiting;
		await outlet.write("dropped");
		await outlet.flush();
		expect(closed).toEqual([expect.any(BrokenPipe)]);
	});

	test("holds the writer back until the reader has taken something", async () => {
		const stream = new PassThrough({ highWaterMark: 1 });
		let written = false;
		const waiting = new Outlet({ open: () => stream }).write("more than it holds").then(() => {
			written = true;
		});
		await new Promise((resolve) => setImmediate(resolve));
		expect(written).toBe(false);
		stream.resume();
		await waiting;
	});

	test("writes a short answer at once, and what could not be written so on the stream, in order", async () => {
		const stream = new PassThrough();
		const atOnce: string[] = [];
		const outlet = new Outlet({
			open: () => stream,
			writeAtOnce: (text) => text.length < 5 && atOnce.push(text) > 0,
		});
		for (const text of ["a", "b", "longer", "c"]) await outlet.write(text);
		await outlet.flush();
		expect({ atOnce, streamed: String(stream.read()) }).toEqual({ atOnce: ["a", "b"], streamed: "longerc" });
	});
});

import { describe, expect, test } from "vitest";
import { ProgressFollower } from "../../../src/engine/progress-stream.js";
import type { Progress } from "../../../src/primitives/progress.js";

const line = (entry: unknown) => `${JSON.stringify(entry)}\r\n`;

describe("the progress of long work", () => {
	test("a failing build ends with its error, the step it failed in and the log's end without colours", () => {
		const follower = new ProgressFollower("build", undefined);
		follower.push(line({ stream: "Step 1/2 : FROM x\n" }) + line({ stream: "Step 2/2 : RUN false\n" }));
		follower.push(line({ stream: "\u001b[91mwhy\n\u001b[0m" }));
		follower.push(line({ errorDetail: { code: 3, message: "code 3" }, error: "code 3" }));
		expect(follower.end()).toEqual({
			error: "code 3",
			step: "Step 2/2 : RUN false",
			log: "Step 1/2 : FROM x\nStep 2/2 : RUN false\nwhy",
		});
	});

	test("output that says it went well does not hide the failure", () => {
		const follower = new ProgressFollower("build", undefined);
		follower.push(line({ stream: "Successfully built abc\n" }) + JSON.stringify({ error: "no" }));
		expect(follower.end().error).toBe("no");
	});

	test("the log keeps its last 40 lines", () => {
		const follower = new ProgressFollower("build", undefined);
		for (let index = 0; index < 100; index++) follower.push(line({ stream: `${index}\n` }));
		const { log } = follower.end();
		expect(log.split("\n")).toHaveLength(40);
		expect(log.endsWith("99")).toBe(true);
	});

	test("lines are told as they come, however they are cut, with how much is done", () => {
		const told: Progress[] = [];
		const follower = new ProgressFollower("pull", (progress) => told.push(progress));
		const text =
			line({ status: "Downloading", id: "ab", progressDetail: { current: 1, total: 4 } }) + line({ status: "Done" });
		for (const character of text) follower.push(character);
		expect(follower.end()).not.toHaveProperty("error");
		expect(told).toEqual([
			{ stage: "pull", message: "ab: Downloading", current: 1, total: 4 },
			{ stage: "pull", message: "Done" },
		]);
	});

	test("what is no JSON is passed over", () => {
		const follower = new ProgressFollower("pull", undefined);
		follower.push("\n<html>\n[]\nnull\n{}\n");
		expect(follower.end()).toEqual({ log: "" });
	});
});

import { describe, test } from "vitest";
import { realEngine, removeLabelled, testImage, testLabel } from "../support/real-engine.js";
import { engineContract } from "./engine-contract.js";

const engine = await realEngine();

if (engine) {
	engineContract("the real engine", async () => {
		const labels = testLabel("engine-contract");
		const prefix = `enginetest-${process.pid}-${Math.random().toString(36).slice(2, 8)}`;
		const close = async (): Promise<void> => void (await removeLabelled(engine, labels));
		return { engine, image: testImage(), labels, prefix, bridge: "bridge", close };
	});
} else {
	describe.skip("the real engine", () => {
		test("no engine answers here", () => {});
	});
}

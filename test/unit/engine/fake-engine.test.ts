import { describe, expect, test } from "vitest";
import { FakeEngine } from "../../support/fake-engine.js";
import { DEFAULT_SPEC } from "../../support/fake-world.js";

const spec = (name: string) => ({ ...DEFAULT_SPEC, name, image: "fake:1" });

function engineWithImage(): FakeEngine {
	const engine = new FakeEngine();
	engine.addImage("fake:1");
	return engine;
}

describe("the fake engine as a tool", () => {
	test("calls are kept in order with what was asked", async () => {
		const engine = engineWithImage();
		const { id } = await engine.createContainer(spec("a"));
		await engine.startContainer(id);
		expect(engine.calls.map(({ method }) => method)).toEqual(["createContainer", "startContainer"]);
		expect(engine.calls[1]?.args).toEqual([id]);
		expect(engine.count("startContainer")).toBe(1);
	});

	test("a call that fails before has done nothing, one that fails after has", async () => {
		for (const [when, made] of [
			["before", 0],
			["after", 1],
		] as const) {
			const engine = engineWithImage();
			engine.failAt({ method: "createContainer", when });
			await expect(engine.createContainer(spec("a"))).rejects.toMatchObject({ code: "engine_unavailable" });
			expect(engine.containers.size).toBe(made);
			await engine.createContainer(spec("b"));
		}
	});

	test("the n-th call fails, of all or of one method, with the error that was given", async () => {
		const engine = engineWithImage();
		const error = new Error("third");
		engine.failAt({ nth: 3 }, error);
		await engine.ping();
		await engine.info();
		await expect(engine.listContainers({})).rejects.toBe(error);
		await engine.listContainers({});
		engine.failAt({ method: "ping", nth: 2, times: 2 }, error);
		await engine.ping();
		await expect(engine.ping()).rejects.toBe(error);
		await expect(engine.ping()).rejects.toBe(error);
		await engine.ping();
	});

	test("a frozen call hangs until it is released, or its signal aborts", async () => {
		const engine = engineWithImage();
		const freeze = engine.freezeAt({ method: "createContainer", when: "after" });
		let done = false;
		const creating = engine.createContainer(spec("a")).then(() => {
			done = true;
		});
		await freeze.reached;
		expect({ done, made: engine.containers.size }).toEqual({ done: false, made: 1 });
		freeze.release();
		await creating;
		const reason = new Error("enough");
		const controller = new AbortController();
		const again = engine.freezeAt({ method: "ping" });
		const pinging = engine.ping({ signal: controller.signal });
		await again.reached;
		controller.abort(reason);
		await expect(pinging).rejects.toBe(reason);
	});

	test("a stranger's container can be put in, in any state, and takes its name", async () => {
		const engine = engineWithImage();
		const id = engine.addContainer({ name: "a", state: "dead", labels: { theirs: "1" }, createdAtMs: 5 });
		await expect(engine.createContainer(spec("a"))).rejects.toMatchObject({ details: { failure: "name_taken" } });
		expect(await engine.inspectContainer("a")).toMatchObject({
			id,
			state: "dead",
			createdAtMs: 5,
			labels: { theirs: "1" },
		});
		expect(engine.named("a")?.id).toBe(id);
	});

	test("a container can end by itself, and its commands end with it", async () => {
		const engine = new FakeEngine({ program: () => new Promise(() => {}) });
		const id = engine.addContainer({ name: "a" });
		const exec = await engine.exec(id, { argv: ["x"], env: {}, stdin: false }, { onStdout() {}, onStderr() {} });
		engine.exit(id, 137, true);
		await exec.ended;
		expect(await engine.inspectExec(exec.id)).toMatchObject({ exitCode: 137 });
		expect(await engine.inspectContainer(id)).toMatchObject({ state: "exited", exitCode: 137, oomKilled: true });
	});
});

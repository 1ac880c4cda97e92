/** What an engine must do with containers. */
import { describe, expect, test } from "vitest";
import {
	createdContainer,
	expectFailure,
	freshName,
	runningContainer,
	type Subject,
	specOf,
	useSubject,
} from "./contract-subject.js";

const NO_SUCH_ID = "0".repeat(64);

export function containerContract(open: () => Promise<Subject>): void {
	const subject = useSubject(open);
	const engine = () => subject().engine;

	describe("containers", () => {
		test("a container that was made is there by id and by exact name, and does not run", async () => {
			const spec = specOf(subject());
			const { id, warnings } = await engine().createContainer(spec);
			expect(warnings).toEqual([]);
			for (const key of [id, spec.name])
				expect(await engine().inspectContainer(key)).toMatchObject({ id, name: spec.name, state: "created", pid: 0 });
		});

		test("what was asked for comes back: labels, variables, user and the image's content id", async () => {
			const labels = { ...subject().labels, "a.b/c": 'x="1", y', empty: "" };
			const id = await createdContainer(subject(), { labels, env: { GREETING: "a=b c\n'd'" } });
			const image = await engine().inspectImage(subject().image);
			const record = await engine().inspectContainer(id);
			expect(record?.labels).toMatchObject(labels);
			expect(record?.env["GREETING"]).toBe("a=b c\n'd'");
			expect(record).toMatchObject({ user: "1000:1000", imageReference: subject().image, imageId: image?.id });
			expect(Math.abs((record?.createdAtMs ?? 0) - Date.now())).toBeLessThan(60_000);
		});

		test("nothing is found by the beginning of an id or under an unknown name", async () => {
			const id = await createdContainer(subject());
			expect(await engine().inspectContainer(id.slice(0, 12))).toBeUndefined();
			expect(await engine().inspectContainer(`${subject().prefix}-never-made`)).toBeUndefined();
		});

		test("a name that is taken is refused, and the one that has it stays as it was", async () => {
			const spec = specOf(subject());
			const { id } = await engine().createContainer(spec);
			await expectFailure(engine().createContainer({ ...spec, env: { OTHER: "1" } }), "name_taken");
			expect(await engine().inspectContainer(spec.name)).toMatchObject({ id });
		});

		test("of many creates with one name at once exactly one wins", async () => {
			const spec = specOf(subject());
			const results = await Promise.allSettled(Array.from({ length: 5 }, () => engine().createContainer(spec)));
			expect(results.filter((result) => result.status === "fulfilled")).toHaveLength(1);
			for (const result of results)
				if (result.status === "rejected") expect(result.reason).toMatchObject({ details: { failure: "name_taken" } });
		});

		test("an unknown image is refused as that, and the name stays free", async () => {
			const spec = specOf(subject());
			await expectFailure(engine().createContainer({ ...spec, image: "sandboxes.test/never-made:1" }), "no_such_image");
			await engine().createContainer(spec);
		});

		test("a list has exactly those that carry each label with exactly that value", async () => {
			const mine = { ...subject().labels, group: freshName(subject()) };
			const a = await runningContainer(subject(), { labels: mine });
			const b = await createdContainer(subject(), { labels: { ...mine, more: "1" } });
			await createdContainer(subject(), { labels: { ...mine, group: `${mine.group}x` } });
			const list = await engine().listContainers(mine);
			expect(list.map(({ id }) => id).sort()).toEqual([a, b].sort());
			const one = list.find(({ id }) => id === a);
			const record = await engine().inspectContainer(a);
			expect(one).toMatchObject({ state: "running", name: record?.name, imageId: record?.imageId });
			expect(one?.labels).toEqual(record?.labels);
			expect(Math.abs((one?.createdAtMs ?? 0) - (record?.createdAtMs ?? 0))).toBeLessThan(1000);
			expect(await engine().listContainers({ ...mine, more: "" })).toEqual([]);
		});

		test("starting says whether it was needed", async () => {
			const id = await createdContainer(subject());
			expect(await engine().startContainer(id)).toBe(true);
			expect(await engine().startContainer(id)).toBe(false);
			const record = await engine().inspectContainer(id);
			expect(record).toMatchObject({ state: "running" });
			expect(record?.pid).toBeGreaterThan(0);
			expect(record?.startedAtMs).toBeGreaterThan(0);
		});

		test("stopping says whether it was needed, and a stopped one starts again", async () => {
			const id = await runningContainer(subject());
			expect(await engine().stopContainer(id, 2000)).toBe(true);
			expect(await engine().inspectContainer(id)).toMatchObject({ state: "exited", exitCode: 143, pid: 0 });
			expect(await engine().stopContainer(id, 2000)).toBe(false);
			expect(await engine().startContainer(id)).toBe(true);
			expect(await engine().inspectContainer(id)).toMatchObject({ state: "running" });
		});

		test("stopping one that was never started is not needed", async () => {
			expect(await engine().stopContainer(await createdContainer(subject()), 1000)).toBe(false);
		});

		test("a paused one refuses to start, goes on when told to, and both may be said twice", async () => {
			const id = await runningContainer(subject());
			await engine().pauseContainer(id);
			await engine().pauseContainer(id);
			expect(await engine().inspectContainer(id)).toMatchObject({ state: "paused" });
			await expectFailure(engine().startContainer(id), "paused");
			await engine().unpauseContainer(id);
			await engine().unpauseContainer(id);
			expect(await engine().inspectContainer(id)).toMatchObject({ state: "running" });
		});

		test("a paused one can be stopped", async () => {
			const id = await runningContainer(subject());
			await engine().pauseContainer(id);
			expect(await engine().stopContainer(id, 2000)).toBe(true);
			expect(await engine().inspectContainer(id)).toMatchObject({ state: "exited" });
		});

		test("one that does not run can be neither paused nor let go on", async () => {
			const id = await createdContainer(subject());
			await expectFailure(engine().pauseContainer(id), "not_running");
			await expectFailure(engine().unpauseContainer(id), "not_running");
		});

		test("renaming moves the name, frees the old one and refuses one that is taken", async () => {
			const spec = specOf(subject());
			const { id } = await engine().createContainer(spec);
			const taken = specOf(subject());
			await engine().createContainer(taken);
			await expectFailure(engine().renameContainer(id, taken.name), "name_taken");
			const name = freshName(subject());
			await engine().renameContainer(id, name);
			expect(await engine().inspectContainer(name)).toMatchObject({ id });
			expect(await engine().inspectContainer(spec.name)).toBeUndefined();
			await engine().createContainer(spec);
		});

		test("removing a running one says that there was one, then that there is none", async () => {
			const id = await runningContainer(subject());
			expect(await engine().removeContainer(id)).toBe(true);
			expect(await engine().inspectContainer(id)).toBeUndefined();
			expect(await engine().removeContainer(id)).toBe(false);
		});

		test("a paused one is removed too", async () => {
			const id = await runningContainer(subject());
			await engine().pauseContainer(id);
			expect(await engine().removeContainer(id)).toBe(true);
			expect(await engine().inspectContainer(id)).toBeUndefined();
		});

		test("when several remove one at once none fails, and it is gone for each", async () => {
			const id = await runningContainer(subject());
			const found = await Promise.all(
				Array.from({ length: 4 }, async () => {
					const was = await engine().removeContainer(id);
					expect(await engine().inspectContainer(id)).toBeUndefined();
					return was;
				}),
			);
			expect(found).toContain(true);
		});

		test("what is asked of a container that is not there is refused as that", async () => {
			const sink = { onStdout() {}, onStderr() {} };
			for (const attempt of [
				() => engine().startContainer(NO_SUCH_ID),
				() => engine().stopContainer(NO_SUCH_ID, 1000),
				() => engine().pauseContainer(NO_SUCH_ID),
				() => engine().unpauseContainer(NO_SUCH_ID),
				() => engine().renameContainer(NO_SUCH_ID, freshName(subject())),
				() => engine().readContainerFile(NO_SUCH_ID, "/etc/os-release"),
				() => engine().statContainerPath(NO_SUCH_ID, "/etc"),
				() => engine().exec(NO_SUCH_ID, { argv: ["true"], env: {}, stdin: false }, sink),
			])
				await expectFailure(attempt(), "no_such_container");
		});

		test("published ports are told, and one that is taken is refused at the start", async () => {
			const port = { port: 8080, protocol: "tcp", hostIp: "127.0.0.1" } as const;
			const first = await runningContainer(subject(), { network: subject().bridge, ports: [port] });
			const { ports } = (await engine().inspectContainer(first)) ?? {};
			expect(ports).toEqual([{ ...port, hostPort: expect.any(Number) }]);
			const hostPort = ports?.[0]?.hostPort ?? 0;
			const [listed] = (await engine().listContainers(subject().labels)).filter(({ id }) => id === first);
			expect(listed?.ports).toEqual(ports);
			const second = await createdContainer(subject(), { network: subject().bridge, ports: [{ ...port, hostPort }] });
			await expectFailure(engine().startContainer(second), "port_taken");
			expect((await engine().inspectContainer(second))?.ports).toEqual([{ ...port, hostPort }]);
			await engine().removeContainer(first);
			expect(await engine().startContainer(second)).toBe(true);
		});

		test("a network that is not there is refused as that, at the latest at the start", async () => {
			const made = engine().createContainer(specOf(subject(), { network: `${subject().prefix}-no-network` }));
			await expectFailure(
				made.then(({ id }) => engine().startContainer(id)),
				"no_such_network",
			);
		});
	});

	describe("a look into a container's files", () => {
		test("a regular file is read in any state, and a link is followed inside", async () => {
			const id = await createdContainer(subject());
			expect(String(await engine().readContainerFile(id, "/etc/os-release"))).toMatch(/^ID=/m);
			await engine().startContainer(id);
			expect(String(await engine().readContainerFile(id, "/etc/os-release"))).toMatch(/^ID=/m);
		});

		test("what is not there, or is no regular file, gives nothing", async () => {
			const id = await createdContainer(subject());
			for (const path of ["/nowhere/file", "/etc/os-release/below", "/etc"])
				expect(await engine().readContainerFile(id, path)).toBeUndefined();
		});

		test("a path is told by name and size", async () => {
			const id = await createdContainer(subject());
			expect(await engine().statContainerPath(id, "/etc")).toMatchObject({ name: "etc", linkTarget: "" });
			expect(await engine().statContainerPath(id, "/nowhere/file")).toBeUndefined();
		});
	});
}

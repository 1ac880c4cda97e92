import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { describeSelf, type Owner, ownerState, parseOwner, thisOwner } from "../../../src/primitives/owner.js";

const me = thisOwner();
const hasProc = existsSync("/proc/self/stat");

function started(pid: number): number {
	const text = readFileSync(`/proc/${pid}/stat`, "latin1");
	return Number(text.slice(text.lastIndexOf(")") + 2).split(" ")[19]);
}

describe("an owner", () => {
	test("is the same for the whole life of a process, and alive", () => {
		expect(thisOwner()).toBe(me);
		expect(ownerState(me)).toBe("alive");
		expect(me.pid).toBe(process.pid);
	});

	test("comes back from JSON, and from nothing else", () => {
		expect(parseOwner(JSON.parse(JSON.stringify(me)))).toEqual(me);
		for (const value of [
			null,
			1,
			{},
			{ ...me, pid: 0 },
			{ ...me, pid: "1" },
			{ ...me, startTime: -1 },
			{ ...me, bootId: 1 },
		]) {
			expect(parseOwner(value)).toBeUndefined();
		}
	});

	test.runIf(hasProc)("is dead when its pid went to a later process, or the machine was started anew", () => {
		expect(ownerState({ ...me, startTime: me.startTime + 1 })).toBe("dead");
		expect(ownerState({ ...me, bootId: "another" })).toBe("dead");
	});

	test.runIf(hasProc)("in another pid namespace cannot be seen from here", () => {
		expect(ownerState({ ...me, pidNamespace: "pid:[1]" })).toBe("unknown");
		expect(ownerState({ ...me, pidNamespace: "pid:[1]", bootId: "another" })).toBe("dead");
	});

	test.runIf(hasProc)("is alive while its process runs, and dead once it is killed, reaped or not", async () => {
		const child = spawn("/bin/sh", ["-c", "sleep 60 & echo $!; read line; kill -9 $!; echo killed; read line"]);
		const lines: string[] = [];
		child.stdout.on("data", (data) => lines.push(...String(data).split("\n")));
		await once(child.stdout, "data");
		const pid = Number(lines[0]);
		const owner: Owner = { ...me, pid, startTime: started(pid) };
		const shell: Owner = { ...me, pid: child.pid ?? 0, startTime: started(child.pid ?? 0) };
		expect([ownerState(owner), ownerState(shell)]).toEqual(["alive", "alive"]);
		child.stdin.write("\n");
		await once(child.stdout, "data");
		// The shell does not wait for it: it stays a zombie as long as the shell reads.
		await expect.poll(() => ownerState(owner)).toBe("dead");
		child.kill("SIGKILL");
		await once(child, "exit");
		expect(ownerState(shell)).toBe("dead");
	});

	test("without /proc is told from its pid alone", async () => {
		const self = describeSelf("/nowhere");
		expect(self).toMatchObject({ bootId: "", pidNamespace: "", pid: process.pid, startTime: 0 });
		expect(ownerState(self, "/nowhere")).toBe("alive");
		expect(ownerState(self)).toBe("alive");
		expect(ownerState(me, "/nowhere")).toBe("alive");
		const child = spawn(process.execPath, ["-e", ""]);
		await once(child, "exit");
		expect(ownerState({ ...self, pid: child.pid ?? 0 }, "/nowhere")).toBe("dead");
		expect(ownerState({ ...me, pid: child.pid ?? 0 }, "/nowhere")).toBe("dead");
	});
});

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { mergeAccounts } from "../../../src/workspace/accounts.js";

const IMAGE = {
	passwd:
		"root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\nnode:x:1000:1000::/home/node:/bin/bash\n",
	group: "root:x:0:\ndaemon:x:1:\nnode:x:1000:\naudio:x:29:pulse\n",
};
const HOME = { home: "/home/sandbox", shell: "/bin/sh" };

function lines(text: string): string[] {
	return text.split("\n").slice(0, -1);
}

describe("account files", () => {
	test.each([
		{
			title: "a uid the image does not know is added at the end",
			user: { uid: 4242, gid: 4242, ...HOME },
			passwd: "sandbox:x:4242:4242::/home/sandbox:/bin/sh",
			group: "sandbox:x:4242:",
		},
		{
			title: "a uid the image knows keeps its name and gets home and shell",
			user: { uid: 1000, gid: 1000, ...HOME },
			passwd: "node:x:1000:1000::/home/sandbox:/bin/sh",
			group: "node:x:1000:",
		},
		{
			title: "a gid the image knows keeps its name and members",
			user: { uid: 4242, gid: 29, ...HOME },
			passwd: "sandbox:x:4242:29::/home/sandbox:/bin/sh",
			group: "audio:x:29:pulse",
		},
		{
			title: "a known user in an unknown group gets a group of a free name",
			user: { uid: 1000, gid: 4242, ...HOME },
			passwd: "node:x:1000:4242::/home/sandbox:/bin/sh",
			group: "sandbox:x:4242:",
		},
		{
			title: "root stays root and finds the home",
			user: { uid: 0, gid: 0, ...HOME },
			passwd: "root:x:0:0:root:/home/sandbox:/bin/sh",
			group: "root:x:0:",
		},
		{
			title: "nobody else can be called root",
			user: { uid: 4242, gid: 4242, userName: "root", ...HOME },
			passwd: "sandbox:x:4242:4242::/home/sandbox:/bin/sh",
			group: "sandbox:x:4242:",
		},
	])("$title", ({ user, passwd, group }) => {
		const merged = mergeAccounts(IMAGE, user);
		expect(lines(merged.passwd)).toContain(passwd);
		expect(lines(merged.group)).toContain(group);
		expect(lines(merged.passwd).filter((line) => line.split(":")[2] === String(user.uid))).toHaveLength(1);
		for (const name of ["root", "daemon", "node"]) {
			expect(lines(merged.passwd).filter((line) => line.startsWith(`${name}:`))).toHaveLength(1);
			expect(lines(merged.group).filter((line) => line.startsWith(`${name}:`))).toHaveLength(1);
		}
	});

	test("another user of the wanted name makes room for ours", () => {
		const { passwd } = mergeAccounts(
			{ passwd: "root:x:0:0::/root:/bin/sh\nsandbox:x:999:999::/srv:/bin/sh\n", group: "" },
			{ uid: 1000, gid: 1000, ...HOME },
		);
		expect(lines(passwd)).toEqual(["root:x:0:0::/root:/bin/sh", "sandbox:x:1000:1000::/home/sandbox:/bin/sh"]);
	});

	test("an image without account files gets a user and a group", () => {
		expect(mergeAccounts({ passwd: "", group: "" }, { uid: 1000, gid: 1001, ...HOME })).toEqual({
			passwd: "sandbox:x:1000:1001::/home/sandbox:/bin/sh\n",
			group: "sandbox:x:1001:\n",
		});
	});

	test("lines that are no entries go, carriage returns too", () => {
		const passwd = "# comment\r\n+::::::\n\nbroken:x:5\nok:x:5:5::/:/bin/sh\r\nbad:x:five:5::/:/bin/sh\n";
		expect(lines(mergeAccounts({ passwd, group: "+:::\n" }, { uid: 7, gid: 7, ...HOME }).passwd)).toEqual([
			"ok:x:5:5::/:/bin/sh",
			"sandbox:x:7:7::/home/sandbox:/bin/sh",
		]);
	});

	test.each([
		["home with a line end", { uid: 1, gid: 1, home: "/h\nroot::0:0::/:/bin/sh" }],
		["home with a colon", { uid: 1, gid: 1, home: "/a:b" }],
		["relative home", { uid: 1, gid: 1, home: "home" }],
		["shell with a line end", { uid: 1, gid: 1, home: "/h", shell: "/bin/sh\n" }],
		["name with a colon", { uid: 1, gid: 1, home: "/h", userName: "a:b" }],
		["negative uid", { uid: -1, gid: 1, home: "/h" }],
		["uid of the error value", { uid: 0xffff_ffff, gid: 1, home: "/h" }],
		["gid that is no integer", { uid: 1, gid: 1.5, home: "/h" }],
	])("a %s is refused", (_, user) => {
		expect(() => mergeAccounts(IMAGE, user)).toThrow(expect.objectContaining({ code: "invalid_input" }));
	});

	test("whatever the image says, every line is whole and uid, gid and our name are there once", () => {
		const field = fc.stringMatching(/^[a-z0-9_/ #+-]{0,8}$/);
		const id = fc.oneof(fc.integer({ min: 0, max: 5 }).map(String), field);
		const name = fc.constantFrom("root", "sandbox", "node", "g3", "x", "", "+", "#c");
		const userLine = fc.tuple(name, field, id, id, field, field, field).map((fields) => fields.join(":"));
		const groupLine = fc.tuple(name, field, id, field).map((fields) => fields.join(":"));
		const text = (line: fc.Arbitrary<string>) =>
			fc.array(fc.oneof({ weight: 4, arbitrary: line }, field), { maxLength: 12 }).map((all) => all.join("\n"));
		fc.assert(
			fc.property(
				text(userLine),
				text(groupLine),
				fc.nat(5),
				fc.nat(5),
				fc.constantFrom("root", "sandbox", "node", undefined),
				(passwd, group, uid, gid, userName) => {
					const merged = mergeAccounts({ passwd, group }, { uid, gid, ...HOME, ...(userName ? { userName } : {}) });
					const users = lines(merged.passwd).map((line) => line.split(":"));
					const groups = lines(merged.group).map((line) => line.split(":"));
					expect(users.every((fields) => fields.length === 7 && /^\d+$/.test(fields[2] ?? ""))).toBe(true);
					expect(groups.every((fields) => fields.length === 4 && /^\d+$/.test(fields[2] ?? ""))).toBe(true);
					const ours = users.filter((fields) => Number(fields[2]) === uid);
					expect(ours).toHaveLength(1);
					expect(ours[0]?.slice(2, 4)).toEqual([String(uid), String(gid)]);
					expect(ours[0]?.slice(5)).toEqual([HOME.home, HOME.shell]);
					expect(users.filter((fields) => fields[0] === ours[0]?.[0])).toHaveLength(1);
					expect(groups.filter((fields) => Number(fields[2]) === gid)).toHaveLength(1);
					expect(ours[0]?.[0] === "root").toBe(uid === 0);
					// What comes out goes in again unchanged.
					expect(mergeAccounts(merged, { uid, gid, ...HOME, ...(userName ? { userName } : {}) })).toEqual(merged);
				},
			),
		);
	});
});

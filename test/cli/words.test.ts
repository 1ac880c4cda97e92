import fc from "fast-check";
import { expect, test } from "vitest";
import { allCommands } from "../../src/cli/commands.js";
import { asksForJson, splitWords } from "../../src/cli/words.js";

const specs = allCommands({});

function split(line: string): { own: string; inner: readonly string[] | undefined; name: string | undefined } {
	const { own, inner, name } = splitWords(line.split(" "), specs);
	return { own: own.join(" "), inner, name };
}

test.each([
	["exec w -- ls -la", "exec w", ["ls", "-la"]],
	["exec w ls -la", "exec w", ["ls", "-la"]],
	["exec w ls -- x", "exec w", ["ls", "--", "x"]],
	["exec w -- -x", "exec w", ["-x"]],
	["exec w -- -- x", "exec w", ["--", "x"]],
	["exec --cwd /tmp w ls", "exec --cwd /tmp w", ["ls"]],
	["exec w --cwd /tmp ls --json", "exec w --cwd /tmp", ["ls", "--json"]],
	["exec w --cwd=/tmp ls", "exec w --cwd=/tmp", ["ls"]],
	["exec -e A=1 w env", "exec -e A=1 w", ["env"]],
	["exec -eA=1 w env", "exec -eA=1 w", ["env"]],
	["exec -ite A=1 w env", "exec -ite A=1 w", ["env"]],
	["exec -it w sh", "exec -it w", ["sh"]],
	["exec w -it sh -i", "exec w -it", ["sh", "-i"]],
	["exec w --json -- ls --json", "exec w --json", ["ls", "--json"]],
	["--root /r --json exec w ls", "--root /r --json exec w", ["ls"]],
	["exec w --root /r --prefix p -- ls", "exec w --root /r --prefix p", ["ls"]],
	["exec w -- exec", "exec w", ["exec"]],
])("%s", (line, own, inner) => {
	expect(split(line)).toEqual({ name: "exec", own, inner });
});

test("without a command there are no words of it", () => {
	for (const line of ["exec w", "exec w --", "exec", "exec --help"]) expect(split(line).inner).toBeUndefined();
});

test("the words of other commands are all ours", () => {
	expect(split("remove exec -- ls")).toEqual({ name: "remove", own: "remove exec -- ls", inner: undefined });
	expect(split("--prefix exec list").name).toBe("list");
});

test("whatever stands behind -- arrives untouched", () => {
	fc.assert(
		fc.property(fc.array(fc.string(), { minLength: 1 }), (words) => {
			expect(splitWords(["exec", "-e", "A=1", "w", "--", ...words], specs).inner).toEqual(words);
		}),
	);
});

test.each([
	["exec -e --json w -- true", false],
	["exec --json -e A w -- true", true],
	["--json exec w", true],
	["exec w -- --json", false],
	["create w --memory --json", false],
	["rm w --json", true],
	["rm -- --json", false],
	["images list --json", true],
	["nosuch --json", true],
])("whether %s asks for JSON: %s", (line, asks) => {
	expect(asksForJson(splitWords(line.split(" "), specs), specs)).toBe(asks);
});

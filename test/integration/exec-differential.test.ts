import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Commands } from "../../src/exec/commands.js";
import type { ExecOptions, ExecResult } from "../../src/exec/request.js";
import { isSandboxError } from "../../src/primitives/errors.js";
import { type Box, Boxes } from "../support/exec-boxes.js";
import { importBusybox } from "../support/exec-images.js";

/** How many commands in all; `SANDBOXES_DIFFERENTIAL=2000` for a long run. */
const COMMANDS = Number(process.env["SANDBOXES_DIFFERENTIAL"] ?? 300);
const BUSYBOX = `sbxtest-diff-busybox:${randomBytes(4).toString("hex")}`;
const DEBIAN = "debian:bookworm-slim";
const boxes = new Boxes("engine");

const word = fc
	.oneof(
		fc.string({ unit: "binary", maxLength: 12 }),
		fc.string({
			unit: fc.constantFrom("'", '"', "\\", "\n", "$", "`", "#", " ", "*", "~", "!", "\t", "\r", "%"),
			maxLength: 8,
		}),
		fc.constantFrom("", "-n", "--", "-e", "a=b", "é😀", "x".repeat(3000)),
	)
	.map((text) => text.replaceAll("\0", "0"));

const step = fc.oneof(
	fc.constant(`printf '[%s]' "$@"`),
	fc.constant(`printf '[%s]' "$@" >&2`),
	fc.constant("tr '\\0' '\\n' </proc/self/environ | grep -v SANDBOXES_EXEC= | sort"),
	fc.constant("cat"),
	fc.constant("head -c 3"),
	fc.constant("wc -c"),
	fc.constant("pwd; umask; ulimit -n; ulimit -c; ulimit -u"),
	fc.constant("grep -E '^(Sig(Ign|Blk)|Cap|Seccomp|NoNewPrivs|Uid|Gid|Groups|Umask)' /proc/self/status"),
	fc.constant("for i in 0 1 2 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$i ] && echo $i; done"),
	fc.constant("for i in 0 1 2; do readlink /proc/$$/fd/$i | cut -d: -f1; done"),
	fc.constant("cut -d' ' -f18,19 /proc/self/stat; cat /proc/self/oom_score_adj /proc/self/cgroup"),
	fc.constant("(set -- $(cut -d' ' -f1,5,6 /proc/$$/stat); [ $1 = $2 ] && [ $1 = $3 ] && echo leader)"),
	fc.constant("sleep 0.2 &"),
	fc.constant("(sleep 0.1; echo unheard >/dev/null) & echo started"),
	fc.constant("exec 3>&1; (sleep 0.1; : >&3) &"),
	fc.constant("setsid sleep 0.1"),
	fc.constant("exec 2>&1"),
	fc.constant("trap 'echo bye' EXIT"),
	fc.constant("cd /; export X=1; alias cat=false"),
	fc.nat(200_000).map((size) => `head -c ${size} /dev/zero | tr '\\0' x`),
	fc.nat(70_000).map((size) => `head -c ${size} /dev/zero >&2`),
	fc.nat(5000).map((size) => `yes | head -n ${size}`),
);

const ending = fc.oneof(
	fc.constant(""),
	fc.nat(255).map((status) => `exit ${status}`),
	fc.constantFrom("TERM", "KILL", "SEGV", "INT", "HUP", "PIPE").map((name) => `kill -${name} $$`),
	fc.constantFrom(
		"exec true",
		"exec false",
		"exec no-such-program",
		"exec /etc",
		"no-such-program",
		"exec >&- 2>&-; exit 4",
	),
);

const input = fc.oneof(
	{ weight: 2, arbitrary: fc.constant(undefined) },
	{ weight: 2, arbitrary: fc.uint8Array({ maxLength: 300 }) },
	{ weight: 1, arbitrary: fc.constantFrom("", "text\n", "a\0b", "\\0101\\c\\n%s", "'\n'") },
	{ weight: 1, arbitrary: fc.nat(9000).map((size) => Buffer.alloc(size, "line\n")) },
);

const name = fc.constantFrom(
	"A",
	"B_1",
	"a.b",
	"x-y",
	"IFS",
	"LC_ALL",
	"PWD",
	"OLDPWD",
	"HOME",
	"__sbx_t",
	"_",
	"ENV",
	"PS4",
);

const command = fc.record({
	argv: fc.oneof(
		{
			weight: 6,
			arbitrary: fc
				.tuple(fc.array(step, { maxLength: 4 }), ending, fc.array(word, { maxLength: 4 }))
				.map(([steps, last, words]) => [
					"sh",
					"-c",
					[...steps, last].filter(Boolean).join("\n") || ":",
					"sh",
					...words,
				]),
		},
		{ weight: 1, arbitrary: fc.array(word, { maxLength: 5 }).map((words) => ["printf", "%s|", ...words]) },
		{ weight: 1, arbitrary: fc.constantFrom(["true"], ["no such"], ["/etc/passwd"], ["env"], ["a=b"], ["cat", "-"]) },
	),
	env: fc.dictionary(name, word, { maxKeys: 3 }),
	cwd: fc.constantFrom("/workspace", "/", "/tmp", "/proc", "/no/such", "/etc/passwd", "."),
	stdin: input,
});

interface Seen {
	readonly stdout: string;
	readonly stderr: string;
	readonly rest: object;
}

async function seen(run: Promise<ExecResult<Buffer>>): Promise<Seen | string> {
	try {
		const { stdout, stderr, durationMs: _ms, ...rest } = await run;
		// The one word that is a command's own.
		const text = (bytes: Buffer): string =>
			bytes.toString("latin1").replaceAll(/SANDBOXES_EXEC=[0-9a-f]{32}/g, "SANDBOXES_EXEC=");
		return { stdout: text(stdout), stderr: text(stderr), rest };
	} catch (error) {
		if (!isSandboxError(error)) throw error;
		return error.code;
	}
}

afterAll(async () => {
	await boxes.removeAll();
	await boxes.engine.removeImage(BUSYBOX);
});

describe.each(["dash", "bash", "busybox"] as const)("both paths in a sandbox whose sh is %s", (shell) => {
	let box: Box;
	const sessions = new Commands(boxes.engine);
	beforeAll(async () => {
		if (shell === "busybox") expect(await importBusybox(BUSYBOX, { shell: true })).toBeDefined();
		const user = shell === "bash" ? "root" : "1000:1000";
		box = await boxes.make({
			image: shell === "busybox" ? BUSYBOX : DEBIAN,
			user,
			env: { "image.odd": "1", B_1: "image" },
		});
		if (shell === "bash") await box.exec("ln -sf bash /bin/sh");
	});

	test("give the same bytes, statuses and errors for generated commands", { timeout: 1_200_000 }, async () => {
		const record = await boxes.engine.inspectContainer(box.target.id);
		const target = { ...box.target, containerEnv: record?.env ?? {} };
		const run = (commands: Commands, { argv, ...options }: { argv: readonly string[] } & ExecOptions) =>
			seen(
				commands.run(
					target,
					commands.normalise(argv, { ...options, encoding: "buffer", timeoutMs: 30_000 }),
				) as Promise<ExecResult<Buffer>>,
			);
		let counted = 0;
		await fc.assert(
			fc.asyncProperty(command, async ({ stdin, ...rest }) => {
				const given = { ...rest, ...(stdin === undefined ? {} : { stdin }) } as {
					argv: readonly string[];
				} & ExecOptions;
				counted += 1;
				expect(await run(sessions, given)).toEqual(await run(boxes.commands, given));
			}),
			{ numRuns: Math.ceil(COMMANDS / 3), endOnFailure: false },
		);
		expect(counted).toBeGreaterThanOrEqual(Math.ceil(COMMANDS / 3));
		sessions.close();
	});
});

/** The few commands that the contract suite runs, for the fake engine, and its builder. */
import { extract } from "tar-stream";
import { SandboxError } from "../../src/primitives/errors.js";
import type { FakeBuilder } from "../support/fake-engine.js";
import type { FakeCommand, FakeProgram } from "../support/fake-exec.js";

const HANDLERS: Readonly<Record<string, FakeProgram>> = {
	true: () => 0,
	cat: async (command) => {
		for await (const chunk of command.stdin) await command.stdout(chunk);
		return 0;
	},
	wc: async (command) => {
		let bytes = 0;
		for await (const chunk of command.stdin) bytes += chunk.length;
		await command.stdout(`${bytes}\n`);
		return 0;
	},
	head: async (command) => {
		const wanted = Number(command.spec.argv[2]);
		if (command.spec.argv[3] === "/dev/zero") {
			for (let left = wanted; left > 0; left -= 50_000) await command.stdout(Buffer.alloc(Math.min(left, 50_000)));
			return 0;
		}
		for await (const chunk of command.stdin) {
			await command.stdout(chunk.subarray(0, wanted));
			break;
		}
		return 0;
	},
	printenv: async (command) => {
		await command.stdout(`${command.spec.env[command.spec.argv[1] ?? ""] ?? ""}\n`);
		return 0;
	},
	printf: async (command) => {
		await command.stdout(
			command.spec.argv
				.slice(2)
				.map((word) => `${word}|`)
				.join(""),
		);
		return 0;
	},
	id: async (command) => {
		await command.stdout(`${(command.spec.user ?? "1000").split(":")[0]}\n`);
		return 0;
	},
	pwd: async (command) => {
		await command.stdout(`${command.spec.workingDir ?? "/"}\n`);
		return 0;
	},
	sleep: (command) =>
		new Promise((resolve) => {
			command.killed.addEventListener("abort", () => resolve(137));
		}),
	sh: shell,
};

async function shell(command: FakeCommand): Promise<number> {
	const script = command.spec.argv[2] ?? "";
	for (const step of script.split("; ")) {
		const words = step.split(" ");
		if (words[0] === "echo") await command[step.endsWith(">&2") ? "stderr" : "stdout"](`${words[1]}\n`);
		else if (words[0] === "read") await command.stdin[Symbol.asyncIterator]().next();
		else if (words[0] === "stty") await command.stdout(`${command.size()?.rows} ${command.size()?.columns}\n`);
		else if (words[0] === "exit") return Number(words[1]);
	}
	return 0;
}

export const contractProgram: FakeProgram = (command) => {
	const handler = HANDLERS[command.spec.argv[0] ?? ""];
	if (!handler) throw new Error(`the fake does not know ${command.spec.argv[0]}`);
	return handler(command);
};

/** Knows `LABEL a=b`, and a `RUN` that exits with a code. */
export const contractBuilder: FakeBuilder = async (spec, context) => {
	const lines = (await dockerfileOf(context)).trim().split("\n");
	const labels: Record<string, string> = { ...spec.labels };
	for (const [index, line] of lines.entries()) {
		const [, name, value] = /^LABEL (\w+)=(\w+)/.exec(line) ?? [];
		if (name && value) labels[name] = value;
		const code = /^RUN echo (\S+) >&2; exit (\d+)/.exec(line);
		if (!code) continue;
		// The classic builder counts the labels of the call as one more step.
		const step = `Step ${index + 1}/${lines.length + 1} : ${line}`;
		throw new SandboxError(
			"image_build_failed",
			`building image ${spec.tag}: ${step}: The command returned a non-zero code: ${code[2]}`,
			{ details: { reference: spec.tag, step, log: `${step}\n${code[1]}` } },
		);
	}
	return { labels };
};

async function dockerfileOf(context: Buffer): Promise<string> {
	const entries = extract();
	entries.end(context);
	for await (const entry of entries) {
		const parts: Buffer[] = [];
		for await (const part of entry) parts.push(part as Buffer);
		return Buffer.concat(parts).toString();
	}
	return "";
}

/** What the contract suites need of an engine under test, and small ways to use it. */
import { pack } from "tar-stream";
import { afterAll, beforeAll, expect, vi } from "vitest";
import type { ContainerSpec, Engine, ExecRecord, ExecSpec, RunningExec } from "../../src/engine/engine.js";
import { type EngineFailure, isSandboxError } from "../../src/primitives/errors.js";

export interface Subject {
	readonly engine: Engine;
	/** An image that is there, with `sh`, `cat`, `sleep` and an `/etc/os-release` that is a link. */
	readonly image: string;
	/** Carried by everything a suite makes. */
	readonly labels: Readonly<Record<string, string>>;
	/** Begins the names of everything a suite makes. */
	readonly prefix: string;
	/** An existing network on which ports can be published. */
	readonly bridge: string;
	close(): Promise<void>;
}

/** Opens the subject once for a suite; what it returns may be asked from within tests. */
export function useSubject(open: () => Promise<Subject>): () => Subject {
	let subject: Subject | undefined;
	beforeAll(async () => {
		subject = await open();
	});
	afterAll(async () => {
		await subject?.close();
	});
	return () => {
		if (!subject) throw new Error("the engine under test was not opened");
		return subject;
	};
}

let count = 0;

/** A name that no other test has. */
export function freshName(subject: Subject): string {
	count += 1;
	return `${subject.prefix}-${count}`;
}

export function specOf(subject: Subject, changes: Partial<ContainerSpec> = {}): ContainerSpec {
	return {
		name: freshName(subject),
		image: subject.image,
		entrypoint: ["sleep"],
		command: ["600"],
		env: {},
		labels: subject.labels,
		user: "1000:1000",
		workingDir: "/tmp",
		memoryBytes: 64 * 1024 * 1024,
		cpus: 1,
		pids: 64,
		shmBytes: 16 * 1024 * 1024,
		stopGraceMs: 1000,
		mounts: [],
		tmpfs: {},
		network: "none",
		ports: [],
		readOnlyRoot: false,
		capAdd: [],
		...changes,
	};
}

export async function createdContainer(subject: Subject, changes?: Partial<ContainerSpec>): Promise<string> {
	return (await subject.engine.createContainer(specOf(subject, changes))).id;
}

export async function runningContainer(subject: Subject, changes?: Partial<ContainerSpec>): Promise<string> {
	const id = await createdContainer(subject, changes);
	await subject.engine.startContainer(id);
	return id;
}

export async function expectFailure(promise: Promise<unknown>, failure: EngineFailure): Promise<void> {
	const error = await promise.then(
		() => undefined,
		(thrown: unknown) => thrown,
	);
	expect(error).toMatchObject({ code: "engine_failed", details: { failure } });
	expect(isSandboxError(error)).toBe(true);
}

/** Output gathered; copied, as the sink gets views. */
export class Collected {
	readonly #out: Buffer[] = [];
	readonly #err: Buffer[] = [];

	onStdout(chunk: Buffer): void {
		this.#out.push(Buffer.from(chunk));
	}

	onStderr(chunk: Buffer): void {
		this.#err.push(Buffer.from(chunk));
	}

	get stdout(): string {
		return Buffer.concat(this.#out).toString();
	}

	get stderr(): string {
		return Buffer.concat(this.#err).toString();
	}
}

export interface Ran extends ExecRecord {
	readonly stdout: string;
	readonly stderr: string;
}

/** Runs a command to its end. */
export async function run(
	subject: Subject,
	containerId: string,
	argv: readonly string[],
	changes: Partial<ExecSpec> & { readonly input?: string | Uint8Array } = {},
): Promise<Ran> {
	const { input, ...rest } = changes;
	const output = new Collected();
	const exec = await subject.engine.exec(containerId, { argv, env: {}, stdin: input !== undefined, ...rest }, output);
	if (input !== undefined) {
		await exec.write(Buffer.from(input));
		exec.endInput();
	}
	await exec.ended;
	return { ...(await finished(subject, exec)), stdout: output.stdout, stderr: output.stderr };
}

/** The record of a command whose stream has ended; some engines need a moment to write the exit code down. */
export async function finished(subject: Subject, exec: RunningExec): Promise<ExecRecord> {
	return await vi.waitFor(
		async () => {
			const record = await subject.engine.inspectExec(exec.id);
			expect(record.running).toBe(false);
			return record;
		},
		{ timeout: 10_000, interval: 20 },
	);
}

/** A build context of one Dockerfile. */
export function contextOf(dockerfile: string): NodeJS.ReadableStream {
	const archive = pack();
	archive.entry({ name: "Dockerfile" }, dockerfile);
	archive.finalize();
	return archive as unknown as NodeJS.ReadableStream;
}

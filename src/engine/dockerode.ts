/**
 * The only file that has met dockerode: building and pulling. Imported when first needed, for it loads slowly.
 */
import { Agent } from "node:http";
import { Agent as SecureAgent } from "node:https";
import { StringDecoder } from "node:string_decoder";
import Docker from "dockerode";
import { raceAbort, throwIfAborted } from "../primitives/abort.js";
import { messageOf, SandboxError, systemCode } from "../primitives/errors.js";
import type { EngineAddress } from "./address.js";
import { tlsFiles } from "./connection.js";
import type { BuildSpec, ProgressOptions } from "./engine.js";
import { unavailableBecause } from "./engine-errors.js";
import { isJsonObject, textOf } from "./json-fields.js";
import { type ProgressEnd, ProgressFollower } from "./progress-stream.js";

/** A step of a build may be silent for long; a pull never is. */
const BUILD_SILENCE_MS = 30 * 60_000;
const PULL_SILENCE_MS = 120_000;

export async function buildImage(address: EngineAddress, spec: BuildSpec, options: ProgressOptions): Promise<void> {
	const fail = (message: string, log: string, step?: string, cause?: unknown): SandboxError<"image_build_failed"> =>
		new SandboxError("image_build_failed", `building image ${spec.tag}: ${step ? `${step}: ` : ""}${message}`, {
			details: { reference: spec.tag, log, ...(step === undefined ? {} : { step }) },
			cause,
		});
	const end = await follow("build", BUILD_SILENCE_MS, options, {
		begin: (abortSignal) =>
			connect(address).buildImage(spec.context, {
				t: spec.tag,
				buildargs: { ...spec.buildArgs },
				labels: { ...spec.labels },
				...(spec.dockerfile === undefined ? {} : { dockerfile: spec.dockerfile }),
				// The classic builder, which every engine has; it leaves a failed step's container unless it is forced to remove it.
				version: "1",
				rm: true,
				forcerm: true,
				abortSignal,
			}),
		refuse: (error) => unreachable(address, error) ?? fail(sentenceOf(error), "", undefined, error),
		silent: (ms) => fail(`the engine said nothing for ${ms / 60_000} minutes`, ""),
	}).finally(() => destroy(spec.context));
	if (end.error !== undefined) throw fail(end.error, end.log, end.step);
}

export async function pullImage(address: EngineAddress, reference: string, options: ProgressOptions): Promise<void> {
	const fail = (reason: string, cause?: unknown): SandboxError<"image_unavailable"> =>
		new SandboxError("image_unavailable", `pulling image ${reference}: ${reason}`, {
			details: { reference, reason },
			hint: "check the name, and that the engine reaches the registry; an image that is here already needs no pull",
			cause,
		});
	const end = await follow("pull", PULL_SILENCE_MS, options, {
		begin: (abortSignal) => connect(address).pull(withTag(reference), { abortSignal }),
		refuse: (error) => unreachable(address, error) ?? fail(sentenceOf(error), error),
		silent: (ms) => fail(`the engine said nothing for ${ms / 1000} s`),
	});
	if (end.error !== undefined) throw fail(end.error);
}

interface Work {
	readonly begin: (signal: AbortSignal) => Promise<NodeJS.ReadableStream>;
	readonly refuse: (error: unknown) => unknown;
	readonly silent: (silenceMs: number) => unknown;
}

/**
 * Starts the work and reads what the engine tells to its end. Ends at once when the caller aborts, and when
 * nothing is heard for too long: dockerode's own promises may stay open then, so none is waited for.
 */
async function follow(stage: string, silenceMs: number, options: ProgressOptions, work: Work): Promise<ProgressEnd> {
	throwIfAborted(options.signal);
	const inner = new AbortController();
	const forward = (): void => inner.abort(options.signal?.reason);
	options.signal?.addEventListener("abort", forward, { once: true });
	const watch = setTimeout(() => inner.abort(work.silent(silenceMs)), silenceMs);
	try {
		return await raceAbort(
			(async () => {
				const stream = await work.begin(inner.signal);
				if (inner.signal.aborted) destroy(stream);
				inner.signal.addEventListener("abort", () => destroy(stream), { once: true });
				const follower = new ProgressFollower(stage, options.onProgress);
				const decoder = new StringDecoder("utf8");
				for await (const chunk of stream) {
					watch.refresh();
					follower.push(typeof chunk === "string" ? chunk : decoder.write(chunk));
				}
				follower.push(decoder.end());
				return follower.end();
			})(),
			inner.signal,
		);
	} catch (error) {
		throw inner.signal.aborted ? inner.signal.reason : work.refuse(error);
	} finally {
		clearTimeout(watch);
		options.signal?.removeEventListener("abort", forward);
	}
}

/** A client for exactly this address: docker-modem would let the environment overrule what it is given. */
function connect(address: EngineAddress): Docker {
	const secure = address.kind === "tcp" && address.tls !== undefined;
	// An agent of our own: Node's global one may go through a proxy of the environment.
	const agent = secure ? new SecureAgent({ keepAlive: false }) : new Agent({ keepAlive: false });
	const where =
		address.kind === "unix"
			? { host: undefined, port: undefined, socketPath: address.socketPath }
			: { host: address.host, port: address.port, socketPath: undefined };
	const { ca, cert, key } = tlsFiles(address);
	const settings = {
		...where,
		ca,
		cert,
		key,
		agent,
		protocol: secure ? "https" : "http",
		pathPrefix: "/",
		timeout: undefined,
	};
	return withoutDockerHost(() => new Docker(settings as unknown as Docker.DockerOptions));
}

/** docker-modem reads DOCKER_HOST and throws on one that it cannot read, even where it is given another address. */
function withoutDockerHost<T>(work: () => T): T {
	const before = process.env["DOCKER_HOST"];
	delete process.env["DOCKER_HOST"];
	try {
		return work();
	} finally {
		if (before !== undefined) process.env["DOCKER_HOST"] = before;
	}
}

/** A name without a tag would pull all of the repository's. */
function withTag(reference: string): string {
	const last = reference.slice(reference.lastIndexOf("/") + 1);
	return last.includes(":") || last.includes("@") ? reference : `${reference}:latest`;
}

/** The error for a call that no engine answered. */
function unreachable(address: EngineAddress, error: unknown): unknown {
	if (error instanceof SandboxError) return error;
	const answered = typeof (error as { statusCode?: unknown } | null)?.statusCode === "number";
	return !answered && systemCode(error) !== undefined ? unavailableBecause(address.address, error) : undefined;
}

/** The engine's own sentence, which dockerode wraps. */
function sentenceOf(error: unknown): string {
	const json = (error as { json?: unknown } | null)?.json;
	const own = isJsonObject(json) ? textOf(json["message"]) : "";
	if (own !== "") return own;
	return messageOf(error)
		.replace(/^\(HTTP code \d+\) [^-]* - /, "")
		.trim();
}

function destroy(stream: NodeJS.ReadableStream): void {
	if (!("destroy" in stream) || typeof stream.destroy !== "function") return;
	stream.on("error", () => {});
	stream.destroy();
}

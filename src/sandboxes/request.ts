/** The normaliser: turns whatever was passed into a complete frozen request, or refuses it before any effect. */
import { isIP } from "node:net";
import { availableParallelism } from "node:os";
import { checkedEnv, MAX_ARGUMENT_BYTES } from "../exec/request.js";
import { asRecord, invalid, refuseUnknownKeys } from "../primitives/checks.js";
import { SandboxError } from "../primitives/errors.js";
import type { ProgressSink } from "../primitives/progress.js";
import {
	DEFAULT_RUNTIME,
	DEFAULTS,
	RANGES,
	RUNTIME_DEFAULTS,
	type ShapeDefaults,
	UNPRIVILEGED_ID,
} from "./defaults.js";
import { checkSource, checkTarget, type Guarded, sortMounts } from "./host-paths.js";
import { parseName } from "./names.js";
import type { Adjustable, MountShape, PortShape, Shape } from "./shape.js";

/** What the engine takes as uid and gid at most. */
const MAX_ID = 2_147_483_647;

export type ImageWant = { readonly runtime: string } | { readonly image: string };

/** A request, complete but for the image's identity. */
export interface Request {
	readonly name: string;
	readonly image: ImageWant;
	readonly shape: Omit<Shape, "imageId">;
	/** What was stated; a field left out keeps what was stated last. */
	readonly stated: Partial<Adjustable>;
	/** What a field of the adjustable ones is when nobody has ever stated it. */
	readonly fallback: Adjustable;
	readonly replace: boolean;
	readonly signal: AbortSignal | undefined;
	readonly onProgress: ProgressSink | undefined;
}

/** A request whose image has its identity. */
export interface ResolvedRequest {
	readonly request: Request;
	readonly shape: Shape;
	/** The reference by which the image was asked for. */
	readonly image: string;
}

/** What the normaliser has to know of the surroundings. */
export interface RequestContext {
	readonly defaults: Partial<ShapeDefaults>;
	/** Uid and gid of the caller. */
	readonly caller: { readonly uid: number; readonly gid: number };
	readonly guarded: Guarded;
}

const SHAPE_KEYS = [
	"memory",
	"cpus",
	"pids",
	"shmSize",
	"idleTimeoutMs",
	"maxLifetimeMs",
	"stopGraceMs",
	"network",
	"ports",
	"mounts",
	"user",
	"readOnlyRoot",
	"ociRuntime",
	"env",
	"labels",
] as const;

export const CREATE_KEYS: readonly string[] = ["runtime", "image", ...SHAPE_KEYS, "replace", "signal", "onProgress"];

export function normaliseCreate(rawName: unknown, rawOptions: unknown, context: RequestContext): Request {
	const name = parseName(rawName);
	const raw = asRecord("options", rawOptions ?? {});
	refuseUnknownKeys("options", raw, CREATE_KEYS);
	const image = parseImageWant(raw["runtime"], raw["image"]);
	const runtimeDefaults = "runtime" in image ? RUNTIME_DEFAULTS.get(image.runtime) : undefined;
	const defaults: ShapeDefaults = { ...DEFAULTS, ...runtimeDefaults, ...context.defaults };
	const network = parseOneOf("network", raw["network"] ?? "bridge", ["none", "bridge"] as const);
	const ports = parsePorts(raw["ports"]);
	if (network === "none" && ports.length > 0) {
		throw invalid("ports", 'none with network "none", which has no way in', raw["ports"], 'use network "bridge"');
	}
	const shape: Request["shape"] = {
		memoryBytes: parseBytes("memory", raw["memory"], defaults.memory, RANGES.memory),
		cpus: parseCpus(raw["cpus"], defaults.cpus),
		pids: parseWhole("pids", raw["pids"], defaults.pids, RANGES.pids),
		shmBytes: parseBytes("shmSize", raw["shmSize"], defaults.shmSize, RANGES.shmSize),
		ports,
		maxLifetimeMs: parseMs("maxLifetimeMs", raw["maxLifetimeMs"], defaults.maxLifetimeMs, RANGES.durationMs),
		idleTimeoutMs: parseMs("idleTimeoutMs", raw["idleTimeoutMs"], defaults.idleTimeoutMs, RANGES.durationMs),
		network,
		mounts: parseMounts(raw["mounts"], context.guarded),
		readOnlyRoot: parseBoolean("readOnlyRoot", raw["readOnlyRoot"]),
		ociRuntime: parseOciRuntime(raw["ociRuntime"]),
		user: parseUser(raw["user"], context.caller),
	};
	const stopGraceMs = parseMs("stopGraceMs", raw["stopGraceMs"], defaults.stopGraceMs, RANGES.stopGraceMs);
	return deepFreeze({
		name,
		image,
		shape,
		stated: {
			...(raw["stopGraceMs"] === undefined ? {} : { stopGraceMs }),
			...(raw["env"] === undefined ? {} : { env: parseEnv(raw["env"]) }),
			...(raw["labels"] === undefined ? {} : { labels: parseUserLabels(raw["labels"]) }),
		},
		fallback: { stopGraceMs, env: {}, labels: {} },
		replace: parseBoolean("replace", raw["replace"]),
		signal: parseSignal(raw["signal"]),
		onProgress: parseSink(raw["onProgress"]),
	});
}

/** The defaults given to the constructor, checked like the options of the same names. */
export function normaliseDefaults(value: unknown): Partial<ShapeDefaults> {
	if (value === undefined) return {};
	const raw = asRecord("defaults", value);
	refuseUnknownKeys("defaults", raw, Object.keys(DEFAULTS));
	const result: { -readonly [Key in keyof ShapeDefaults]?: number } = {};
	if (raw["memory"] !== undefined) result.memory = parseBytes("defaults.memory", raw["memory"], 0, RANGES.memory);
	if (raw["shmSize"] !== undefined) result.shmSize = parseBytes("defaults.shmSize", raw["shmSize"], 0, RANGES.shmSize);
	if (raw["cpus"] !== undefined) result.cpus = parseCpus(raw["cpus"], 1);
	if (raw["pids"] !== undefined) result.pids = parseWhole("defaults.pids", raw["pids"], 0, RANGES.pids);
	for (const key of ["idleTimeoutMs", "maxLifetimeMs", "stopGraceMs"] as const) {
		const range = key === "stopGraceMs" ? RANGES.stopGraceMs : RANGES.durationMs;
		if (raw[key] !== undefined) result[key] = parseMs(`defaults.${key}`, raw[key], 0, range);
	}
	return Object.freeze(result);
}

/** Options of the calls that take a signal and nothing else. */
export function normaliseCall(value: unknown): { readonly signal?: AbortSignal } {
	if (value === undefined) return {};
	const raw = asRecord("options", value);
	refuseUnknownKeys("options", raw, ["signal"]);
	const signal = parseSignal(raw["signal"]);
	return signal ? { signal } : {};
}

function parseSignal(value: unknown): AbortSignal | undefined {
	if (value === undefined || value instanceof AbortSignal) return value;
	throw invalid("signal", "an AbortSignal", value);
}

/** As for a command, and each variable small enough to be given to one. */
function parseEnv(value: unknown): Readonly<Record<string, string>> {
	const env = checkedEnv("env", value);
	for (const [name, text] of Object.entries(env)) {
		const bytes = Buffer.byteLength(name) + 1 + Buffer.byteLength(text);
		if (bytes > MAX_ARGUMENT_BYTES) throw invalid(`env.${name}`, `at most ${MAX_ARGUMENT_BYTES} bytes`, bytes);
	}
	return env;
}

function parseUserLabels(value: unknown): Readonly<Record<string, string>> {
	return parseStrings("labels", value, (key, text) => {
		if (key === "" || key.length > 128) throw invalid("labels name", "1 to 128 characters", key);
		if (text.length > 4096) throw invalid(`labels.${key}`, "at most 4,096 characters", `${text.length} characters`);
	});
}

function parseStrings(
	field: string,
	value: unknown,
	check: (key: string, text: string) => void,
): Record<string, string> {
	const record = asRecord(field, value);
	const entries: [string, string][] = [];
	for (const [key, text] of Object.entries(record)) {
		if (typeof text !== "string") throw invalid(`${field}.${key}`, "a string", text);
		check(key, text);
		entries.push([key, text]);
	}
	return Object.fromEntries(entries);
}

function parseImageWant(runtime: unknown, image: unknown): ImageWant {
	if (runtime !== undefined && image !== undefined) {
		throw new SandboxError("invalid_input", "options: runtime and image exclude each other; give one of them", {
			details: { field: "image", expected: "either runtime or image" },
		});
	}
	if (image !== undefined) {
		if (typeof image !== "string" || image === "")
			throw invalid("image", "an image reference such as debian:bookworm-slim", image);
		return { image };
	}
	if (runtime === undefined) return { runtime: DEFAULT_RUNTIME };
	if (typeof runtime !== "string" || runtime === "") throw invalid("runtime", "the name of a runtime", runtime);
	return { runtime };
}

interface Range {
	readonly min: number;
	readonly max: number;
}

function parseBytes(field: string, value: unknown, fallback: number, range: Range): number {
	const bytes = value === undefined ? fallback : value;
	if (typeof bytes !== "number" || !Number.isInteger(bytes) || bytes < range.min || bytes > range.max) {
		throw invalid(field, `an integer number of bytes from ${range.min} to ${range.max}`, bytes, "use MiB(512)");
	}
	return bytes;
}

function parseWhole(field: string, value: unknown, fallback: number, range: Range): number {
	const number = value === undefined ? fallback : value;
	if (typeof number !== "number" || !Number.isInteger(number) || number < range.min || number > range.max) {
		throw invalid(field, `an integer from ${range.min} to ${range.max}`, number);
	}
	return number;
}

function parseMs(field: string, value: unknown, fallback: number, range: Range): number {
	const ms = value === undefined ? fallback : value;
	if (typeof ms !== "number" || !Number.isInteger(ms) || ms < range.min || ms > range.max) {
		throw invalid(field, `an integer number of milliseconds from ${range.min} to ${range.max}`, ms);
	}
	return ms;
}

function parseCpus(value: unknown, fallback: number): number {
	const cpus = value === undefined ? fallback : value;
	const max = availableParallelism();
	if (typeof cpus !== "number" || !(cpus >= RANGES.cpus.min && cpus <= max)) {
		throw invalid("cpus", `a number from ${RANGES.cpus.min} to ${max} (what this machine has)`, cpus);
	}
	return Math.round(cpus * 1000) / 1000;
}

function parseBoolean(field: string, value: unknown): boolean {
	if (value === undefined) return false;
	if (typeof value !== "boolean") throw invalid(field, "true or false", value);
	return value;
}

function parseOneOf<const Word extends string>(field: string, value: unknown, words: readonly Word[]): Word {
	const word = words.find((candidate) => candidate === value);
	if (word === undefined) throw invalid(field, words.map((candidate) => `"${candidate}"`).join(" or "), value);
	return word;
}

function parseOciRuntime(value: unknown): string | null {
	if (value === undefined) return null;
	if (typeof value !== "string" || !/^[A-Za-z0-9][\w./-]{0,127}$/.test(value))
		throw invalid("ociRuntime", "the name of an OCI runtime such as runsc", value);
	return value;
}

function parseUser(value: unknown, caller: { uid: number; gid: number }): string {
	if (value === undefined || value === "caller") {
		return caller.uid === 0 ? `${UNPRIVILEGED_ID}:${UNPRIVILEGED_ID}` : `${caller.uid}:${caller.gid}`;
	}
	if (value === "root") return "root";
	const match = typeof value === "string" ? /^(\d{1,10}):(\d{1,10})$/.exec(value) : null;
	const [uid, gid] = [Number(match?.[1]), Number(match?.[2])];
	if (!match || uid > MAX_ID || gid > MAX_ID) throw invalid("user", '"caller", "root" or "uid:gid"', value);
	if (uid === 0) throw invalid("user", 'a uid other than 0; say "root" for that', value);
	if (caller.uid !== 0 && uid !== caller.uid) {
		throw invalid(
			"user",
			`your own uid ${caller.uid}, or "root": files for another uid can only be made by root`,
			value,
		);
	}
	return `${uid}:${gid}`;
}

function parsePorts(value: unknown): readonly PortShape[] {
	if (value === undefined) return [];
	if (!Array.isArray(value)) throw invalid("ports", "an array of ports", value);
	const ports = value.map((item: unknown, index): PortShape => {
		const field = `ports[${index}]`;
		if (typeof item === "number")
			return { port: parsePort(field, item), protocol: "tcp", hostPort: null, hostIp: "127.0.0.1" };
		const record = asRecord(field, item);
		refuseUnknownKeys(field, record, ["port", "protocol", "hostPort", "hostIp"]);
		const hostIp = record["hostIp"] ?? "127.0.0.1";
		if (typeof hostIp !== "string" || isIP(hostIp) === 0) throw invalid(`${field}.hostIp`, "an IP address", hostIp);
		return {
			port: parsePort(`${field}.port`, record["port"]),
			protocol: parseOneOf(`${field}.protocol`, record["protocol"] ?? "tcp", ["tcp", "udp"] as const),
			hostPort: record["hostPort"] === undefined ? null : parsePort(`${field}.hostPort`, record["hostPort"]),
			hostIp,
		};
	});
	const keys = ports.map((port) => `${port.port}/${port.protocol}`);
	const twice = keys.find((key, index) => keys.indexOf(key) !== index);
	if (twice) throw invalid("ports", "each port once", twice);
	const taken = ports.flatMap((port) =>
		port.hostPort === null ? [] : [`${port.hostIp}:${port.hostPort}/${port.protocol}`],
	);
	const takenTwice = taken.find((key, index) => taken.indexOf(key) !== index);
	if (takenTwice) throw invalid("ports", "each port of the host once", takenTwice);
	return ports.sort((a, b) => a.port - b.port || (a.protocol < b.protocol ? -1 : 1));
}

function parsePort(field: string, value: unknown): number {
	return parseWhole(field, value ?? Number.NaN, 0, { min: 1, max: 65_535 });
}

function parseMounts(value: unknown, guarded: Guarded): readonly MountShape[] {
	if (value === undefined) return [];
	if (!Array.isArray(value)) throw invalid("mounts", "an array of mounts", value);
	return sortMounts(
		value.map((item: unknown, index): MountShape => {
			const field = `mounts[${index}]`;
			const record = asRecord(field, item);
			refuseUnknownKeys(field, record, ["source", "target", "readOnly"]);
			const readOnly = record["readOnly"] ?? true;
			if (typeof readOnly !== "boolean") throw invalid(`${field}.readOnly`, "true or false", readOnly);
			return {
				source: checkSource(`${field}.source`, record["source"], guarded),
				target: checkTarget(`${field}.target`, record["target"]),
				readOnly,
			};
		}),
	);
}

export function parseSink(value: unknown): ProgressSink | undefined {
	if (value === undefined || typeof value === "function") return value as ProgressSink | undefined;
	throw invalid("onProgress", "a function", value);
}

function deepFreeze<Value extends object>(value: Value): Value {
	for (const member of Object.values(value)) {
		const isPlain = typeof member === "object" && member !== null && !(member instanceof AbortSignal);
		if (isPlain && !Object.isFrozen(member)) deepFreeze(member);
	}
	return Object.freeze(value);
}

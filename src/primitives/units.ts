/** Sizes and durations: branded numbers, and their text forms. */
import { SandboxError } from "./errors.js";

declare const bytesBrand: unique symbol;

/** A number of bytes made by {@link KiB}, {@link MiB}, {@link GiB}, {@link TiB} or {@link bytes}; a bare number does not type-check as one. */
export type Bytes = number & { readonly [bytesBrand]: "bytes" };

function scaled(unit: string, factor: number): (amount: number) => Bytes {
	return (amount) => {
		const value = amount * factor;
		if (
			typeof amount !== "number" ||
			!Number.isFinite(amount) ||
			amount < 0 ||
			!Number.isSafeInteger(Math.round(value))
		) {
			throw new SandboxError(
				"invalid_input",
				`${unit}: expected a number ≥ 0, got ${String(amount)} (${typeof amount})`,
				{
					details: { field: unit, expected: "a number ≥ 0", received: String(amount) },
				},
			);
		}
		return Math.round(value) as Bytes;
	};
}

/** A number of bytes as it is. */
export const bytes: (amount: number) => Bytes = scaled("bytes", 1);
/** So many KiB (1,024 bytes). */
export const KiB: (amount: number) => Bytes = scaled("KiB", 1024);
/**
 * So many MiB (1,048,576 bytes).
 *
 * @example
 * ```ts
 * import { MiB } from "sandboxes";
 * console.log(MiB(512)); // 536870912
 * ```
 */
export const MiB: (amount: number) => Bytes = scaled("MiB", 1024 ** 2);
/** So many GiB (1,073,741,824 bytes). */
export const GiB: (amount: number) => Bytes = scaled("GiB", 1024 ** 3);
/** So many TiB (1,099,511,627,776 bytes). */
export const TiB: (amount: number) => Bytes = scaled("TiB", 1024 ** 4);

const SIZE = /^(\d+(?:\.\d+)?)\s*(b|k|kb|kib|m|mb|mib|g|gb|gib|t|tb|tib)?$/i;
const SIZE_FACTOR: Readonly<Record<string, number>> = { b: 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3, t: 1024 ** 4 };

/** Text such as `512m`, `2g`, `1.5GiB` or `1048576` to bytes; every unit is a power of 1,024, as in the docker CLI. */
export function parseSize(text: string, field = "size"): Bytes {
	const match = SIZE.exec(text.trim());
	const factor = SIZE_FACTOR[(match?.[2] ?? "b").charAt(0).toLowerCase()];
	const value = match && factor !== undefined ? Math.round(Number(match[1]) * factor) : Number.NaN;
	if (!Number.isSafeInteger(value)) {
		throw new SandboxError("invalid_input", `${field}: expected a size such as 512m or 2g, got "${text}"`, {
			details: { field, expected: "a size such as 512m or 2g", received: text },
		});
	}
	return value as Bytes;
}

const DURATION_PART = /(\d+(?:\.\d+)?)(ms|s|m|h|d)/gy;
const DURATION_FACTOR: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Text such as `30s`, `1h`, `1h30m`, `250ms` or `0` to milliseconds. A bare number other than 0 is refused: it names no unit. */
export function parseDuration(text: string, field = "duration"): number {
	const trimmed = text.trim().toLowerCase();
	if (trimmed === "0") return 0;
	DURATION_PART.lastIndex = 0;
	let total = 0;
	let end = 0;
	for (let match = DURATION_PART.exec(trimmed); match; match = DURATION_PART.exec(trimmed)) {
		total += Number(match[1]) * (DURATION_FACTOR[match[2] ?? ""] ?? Number.NaN);
		end = DURATION_PART.lastIndex;
	}
	const value = Math.round(total);
	if (trimmed === "" || end !== trimmed.length || !Number.isSafeInteger(value)) {
		throw new SandboxError("invalid_input", `${field}: expected a duration such as 30s, 5m or 1h, got "${text}"`, {
			details: { field, expected: "a duration such as 30s, 5m or 1h", received: text },
		});
	}
	return value;
}

/** Bytes as people read them: `512 MiB`, `1.5 GiB`. */
export function formatSize(value: number): string {
	const units = ["B", "KiB", "MiB", "GiB", "TiB"];
	let amount = value;
	let unit = 0;
	while (amount >= 1024 && unit < units.length - 1) {
		amount /= 1024;
		unit += 1;
	}
	return `${Number.isInteger(amount) ? amount : amount.toFixed(1)} ${units[unit]}`;
}

/** Milliseconds as people read them: `1h`, `5m`, `1m30s`, `250ms`; 0 is `none`, as 0 means no limit wherever it is shown. */
export function formatDuration(ms: number): string {
	if (ms === 0) return "none";
	if (ms < 1000) return `${ms}ms`;
	const parts: string[] = [];
	let rest = Math.round(ms / 1000);
	for (const [unit, seconds] of [
		["d", 86_400],
		["h", 3600],
		["m", 60],
		["s", 1],
	] as const) {
		const count = Math.floor(rest / seconds);
		if (count > 0) parts.push(`${count}${unit}`);
		rest -= count * seconds;
	}
	return parts.slice(0, 2).join("");
}

/** Finding compiled modules in a workspace: they belong to the libc they were built for. */
import { systemCode } from "../primitives/errors.js";
import { type Directory, displayName, openDescendant, openDirectory, readNames } from "./fd-walk.js";
import { TimeSlice } from "./time-slice.js";

/** Where the search ends, found or not. */
export interface SearchLimits {
	/** How many paths to give. Default 5. */
	readonly maxResults?: number;
	/** How many entries to look at. Default 50,000. */
	readonly maxEntries?: number;
	/** How many levels to go down. Default 16. */
	readonly maxDepth?: number;
	/** How long to search. Default 1,000 ms. */
	readonly maxMs?: number;
	readonly signal?: AbortSignal;
}

const NATIVE = /\.(?:node|so(?:\.[0-9]+)*)$/;

/**
 * Some paths of native modules (`*.node`, `*.so`, `*.so.1` …) below a directory, relative to it, nearest first; a sample, not a list.
 *
 * Links are not followed. What cannot be read is passed over, and a missing directory has none: the answer feeds a warning.
 */
export async function findNativeModules(directory: string, limits: SearchLimits = {}): Promise<string[]> {
	const { maxResults = 5, maxEntries = 50_000, maxDepth = 16, maxMs = 1000, signal } = limits;
	const found: string[] = [];
	const top = openOrSkip(() => openDirectory(directory));
	if (!top) return found;
	const end = performance.now() + maxMs;
	const slice = new TimeSlice(() => signal?.throwIfAborted());
	const queue: (readonly Buffer[])[] = [[]];
	let seen = 0;
	try {
		for (let place = queue.shift(); place; place = queue.shift()) {
			const names = place;
			const current = openOrSkip(() => openDescendant(top, names));
			if (!current) continue;
			try {
				for (const batch of readNames(current, 128)) {
					for (const { name, type } of batch) {
						if (type === "directory" && names.length < maxDepth) queue.push([...names, name]);
						if (type !== "file" || !NATIVE.test(name.toString("latin1"))) continue;
						found.push([...names, name].map(displayName).join("/"));
						if (found.length >= maxResults) return found;
					}
					seen += batch.length;
					if (seen >= maxEntries || performance.now() >= end) return found;
					if (slice.isOver()) await slice.next();
				}
			} catch (error) {
				if (systemCode(error) === undefined) throw error;
			} finally {
				current.close();
			}
		}
		return found;
	} finally {
		top.close();
	}
}

function openOrSkip(open: () => Directory): Directory | undefined {
	try {
		return open();
	} catch (error) {
		if (systemCode(error) === undefined) throw error;
		return undefined;
	}
}

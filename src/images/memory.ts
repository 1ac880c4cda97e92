/** Small records that are cheaper to keep than to ask for again: in memory, and in one file each where there is a directory. */
import { randomBytes } from "node:crypto";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

/**
 * A cache and nothing more: a file that is missing, damaged or of another form reads as absent, and a file that cannot be
 * written is left unwritten. Files are replaced as a whole, so several processes may share the directory.
 */
export class Memory<T extends object> {
	readonly #directory: string | undefined;
	readonly #read: (value: unknown) => T | undefined;
	readonly #kept = new Map<string, T>();

	/** `read` gives the record that a parsed file holds, or `undefined` for anything else. */
	constructor(directory: string | undefined, read: (value: unknown) => T | undefined) {
		this.#directory = directory;
		this.#read = read;
	}

	/** `name` is made of letters, digits and dashes. */
	async find(name: string): Promise<T | undefined> {
		const kept = this.#kept.get(name);
		if (kept || this.#directory === undefined) return kept;
		try {
			const found = this.#read(JSON.parse(await readFile(join(this.#directory, `${name}.json`), "utf8")));
			if (found) this.#kept.set(name, found);
			return found;
		} catch {
			return undefined;
		}
	}

	async keep(name: string, value: T): Promise<void> {
		this.#kept.set(name, value);
		if (this.#directory === undefined) return;
		const unfinished = join(this.#directory, `.${name}-${randomBytes(6).toString("hex")}`);
		try {
			await mkdir(this.#directory, { recursive: true, mode: 0o700 });
			await writeFile(unfinished, `${JSON.stringify(value)}\n`, { mode: 0o600, flag: "wx" });
			await rename(unfinished, join(this.#directory, `${name}.json`));
		} catch {
			await rm(unfinished, { force: true }).catch(() => {});
		}
	}
}

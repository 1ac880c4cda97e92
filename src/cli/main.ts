#!/usr/bin/env node
/** The program's entry: the only file that ends the process. Asking for the version loads nothing else. */
import { readFileSync, writeSync } from "node:fs";

const argv = process.argv.slice(2);

if (!(argv.length === 1 && (argv[0] === "--version" || argv[0] === "-V") && tellVersion())) {
	void import("./start.js").then(({ start }) => start(argv)).then((status) => process.exit(status));
}

/** `false` where it could not be written, of which the whole program knows how to tell. */
function tellVersion(): boolean {
	const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
	try {
		writeSync(1, `${(JSON.parse(text) as { version: string }).version}\n`);
		return true;
	} catch {
		return false;
	}
}

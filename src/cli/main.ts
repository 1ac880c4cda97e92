#!/usr/bin/env node
/** The program's entry: the only file that ends the process. Asking for the version loads nothing else. */
import { readFileSync } from "node:fs";

const argv = process.argv.slice(2);

if (argv.length === 1 && (argv[0] === "--version" || argv[0] === "-V")) {
	const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
	process.stdout.write(`${(JSON.parse(text) as { version: string }).version}\n`);
} else {
	void import("./start.js").then(({ start }) => start(argv)).then((status) => process.exit(status));
}

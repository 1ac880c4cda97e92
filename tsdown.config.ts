/** Two builds: the library as a module, and the program as a few files that load what is large only when it is needed. */
import { writeFile } from "node:fs/promises";
import { defineConfig } from "tsdown";

const common = { platform: "node", target: "node20", outDir: "dist", sourcemap: false } as const;

/** Large, and needed by few calls: imported from the packages that are installed beside this one, at the first use. */
const LAZY = ["dockerode", "tar-fs", "tar-stream", "proper-lockfile"];

/**
 * What a plain command needs goes into one file. Apart stay the entry, for the sake of the version, commander, which only help
 * and refusals need, and what meets dockerode.
 */
const NEEDED = /[\\/]src[\\/](?!cli[\\/](?:main|commander-reader)\.|engine[\\/]dockerode\.)/;

/** Modules of Node that take some milliseconds to load: a fifth of a short command. */
const SLOW = /require\(([`"'])node:(crypto|child_process)\1\)/g;

/** Requires the slow modules of Node when something of theirs is first used. In CommonJS every use names the module: `n.randomBytes`. */
const lazyNodeModules = {
	name: "lazy-node-modules",
	renderChunk: (code: string): string =>
		code.replace(SLOW, "new Proxy({},{get:(_,key)=>require(`node:$2`)[key]})"),
};

export default defineConfig([
	{ ...common, format: "esm", fixedExtension: false, entry: { index: "src/index.ts" }, dts: true, clean: true },
	{
		...common,
		// Node starts CommonJS about 10 ms sooner than the same program as modules; without comments half of it is left to read.
		format: "cjs",
		minify: true,
		entry: { "cli/sbx": "src/cli/main.ts" },
		outExtensions: () => ({ js: ".js" }),
		outputOptions: { chunkFileNames: "cli/[name].js", codeSplitting: { groups: [{ name: "start", test: NEEDED }] } },
		plugins: [lazyNodeModules],
		dts: false,
		clean: false,
		deps: { alwaysBundle: ["commander"], onlyBundle: ["commander"], neverBundle: LAZY },
		hooks: {
			"build:done": () => writeFile("dist/cli/package.json", '{ "type": "commonjs" }\n'),
		},
	},
]);

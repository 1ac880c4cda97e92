/** Two builds: the library as a module, and the program as a few files that load what is large only when it is needed. */
import { writeFile } from "node:fs/promises";
import { defineConfig } from "tsdown";

const common = { platform: "node", target: "node20", outDir: "dist", sourcemap: false } as const;

/** Large, and needed by few calls: imported from the packages that are installed beside this one, at the first use. */
const LAZY = ["dockerode", "tar-fs", "tar-stream", "proper-lockfile"];

/** What every command needs goes into one file; the entry stays apart for the version, and what meets dockerode for its cost. */
const NEEDED = /[\\/]commander[\\/]|[\\/]src[\\/](?!cli[\\/]main|engine[\\/]dockerode)/;

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
		dts: false,
		clean: false,
		deps: { alwaysBundle: ["commander"], onlyBundle: ["commander"], neverBundle: LAZY },
		hooks: {
			"build:done": () => writeFile("dist/cli/package.json", '{ "type": "commonjs" }\n'),
		},
	},
]);

/** Two builds: the library as a module, and the program as one file that loads what is large only when it is needed. */
import { defineConfig } from "tsdown";

const common = {
	format: "esm",
	platform: "node",
	target: "node20",
	outDir: "dist",
	sourcemap: false,
	fixedExtension: false,
} as const;

/** Large, and needed by few calls: imported by the packages that ship beside us, at the first use. */
const LAZY = ["dockerode", "tar-fs", "tar-stream", "proper-lockfile"];

export default defineConfig([
	{ ...common, entry: { index: "src/index.ts" }, dts: true, clean: true },
	{
		...common,
		entry: { "cli/sbx": "src/cli/main.ts" },
		dts: false,
		clean: false,
		deps: { alwaysBundle: ["commander"], neverBundle: LAZY },
		outputOptions: { codeSplitting: false },
	},
]);

/** Two builds: the library as a module, and the program as a few files that load what is large only when it is needed. */
import { writeFile } from "node:fs/promises";
import { defineConfig } from "tsdown";

const common = { platform: "node", target: "node20", outDir: "dist", sourcemap: false } as const;

/** Large, and needed by few calls: imported from the packages that are installed beside this one, at the first use. */
const LAZY = ["commander", "dockerode", "tar-fs", "tar-stream", "proper-lockfile"];

/**
 * The program's files: the entry, for the sake of the version; what every command needs; what `exec` needs beside it; and what
 * neither `list` nor `exec` needs as long as all goes well. commander (help and refusals) and what meets dockerode stay apart too.
 * A module that is missing in these lists is in the first file: that costs a little time and nothing else.
 */
const room = (path: string): RegExp => new RegExp(`/src/(?:${path})`.replaceAll("/", "[\\\\/]"));
const FILES = [
	{
		name: "seldom",
		test: room(
			[
				"archive/",
				"cli/(?:each|failure|terminal|commands/shape-options)\\.",
				"engine/(?:engine-info|progress-stream)\\.",
				"exec/(?:code|processes|session|shell|spawned)[a-z-]*\\.",
				"images/(?:build-runtime|catalog|pull-image|reference)\\.",
				"ledger/(?:sealing|successor)\\.",
				"locks/lock-link\\.",
				"sandboxes/(?:apply|build|container-spec|helper|host-paths|libc|make|network|operation|reasons|rebuild|remove|settle|start)\\.",
				"workspace/(?:accounts|adopt-tree|areas|fd-walk|native-modules|remove-tree|time-slice)\\.",
			].join("|"),
		),
	},
	{ name: "exec", test: room("exec/(?!commands|engine-(?:ender|starter)|result)|engine/(?:demux|exec-stream)\\.") },
	{ name: "start", test: room("(?!cli/(?:main|commander-reader)\\.|engine/dockerode\\.)") },
];

/** Files of the program and modules of Node that cost some milliseconds and that many runs do not need. */
const SLOW = /require\(([`"'])(node:crypto|node:child_process|\.\/seldom\.js|\.\/exec\.js)\1\)/g;

/** Requires these when something of theirs is first used. In CommonJS every use names the module, as in `n.randomBytes`. */
const lazyModules = {
	name: "lazy-modules",
	renderChunk: (code: string): string => code.replace(SLOW, "new Proxy({},{get:(_,key)=>require(`$2`)[key]})"),
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
		outputOptions: {
			chunkFileNames: "cli/[name].js",
			codeSplitting: { groups: FILES, includeDependenciesRecursively: false },
		},
		plugins: [lazyModules],
		dts: false,
		clean: false,
		deps: { neverBundle: LAZY },
		hooks: {
			"build:done": () => writeFile("dist/cli/package.json", '{ "type": "commonjs" }\n'),
		},
	},
]);

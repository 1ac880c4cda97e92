/** Which runtimes there are, and the folder each is built from. */
import { existsSync, readdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { asRecord, invalid, nearest, refuseUnknownKeys } from "../primitives/checks.js";
import { SandboxError } from "../primitives/errors.js";

/** A runtime of the user's own: the folder of its Dockerfile, or that and its build arguments. */
export type RuntimeSource =
	| string
	| {
			/** The folder that holds the Dockerfile. Left out: the folder that ships under this name. */
			readonly context?: string;
			/** Values for the Dockerfile's `ARG`s, as in `{ BASE_IMAGE: "mirror.example/node:22-bookworm-slim" }`. */
			readonly buildArgs?: Readonly<Record<string, string>>;
	  };

export interface Recipe {
	readonly runtime: string;
	/** Absolute path of the folder that holds the Dockerfile. */
	readonly context: string;
	readonly buildArgs: Readonly<Record<string, string>>;
}

const RUNTIME_NAME = /^[a-z0-9]+(?:[._-][a-z0-9]+)*$/;
const MAX_RUNTIME_LENGTH = 100;

/**
 * The recipes by runtime name, the user's own before the shipped ones of the same name.
 * Throws `invalid_input` for a name that cannot be part of an image tag and for a folder without a Dockerfile.
 */
export function readCatalog(
	directory: string,
	custom: Readonly<Record<string, RuntimeSource>> = {},
): ReadonlyMap<string, Recipe> {
	const recipes = new Map<string, Recipe>();
	for (const runtime of readdirSync(directory).sort()) {
		const context = join(directory, runtime);
		if (existsSync(join(context, "Dockerfile"))) recipes.set(runtime, { runtime, context, buildArgs: {} });
	}
	for (const [runtime, value] of Object.entries(asRecord("images", custom)))
		recipes.set(runtime, toRecipe(runtime, value, recipes.get(runtime)));
	return recipes;
}

/** The recipe of a runtime, or `invalid_input` that lists the known ones, the likeliest first. */
export function getRecipe(recipes: ReadonlyMap<string, Recipe>, runtime: string): Recipe {
	const recipe = recipes.get(runtime);
	if (recipe) return recipe;
	const known = [...recipes.keys()];
	const near = typeof runtime === "string" ? nearest(runtime, known) : undefined;
	const listed = near === undefined ? known : [near, ...known.filter((name) => name !== near)];
	throw new SandboxError(
		"invalid_input",
		`runtime: there is no runtime ${JSON.stringify(runtime)}${near === undefined ? "." : `; did you mean "${near}"?`} Known: ${listed.join(", ")}`,
		{
			details: { field: "runtime", expected: `one of ${listed.join(", ")}`, received: String(runtime) },
			hint: "any other image is given as `image`, a reference such as debian:bookworm-slim",
		},
	);
}

/** The `images/` folder of this package, seen from the sources and from the bundled files alike. */
export function shippedImages(from: string = fileURLToPath(import.meta.url)): string {
	for (let directory = dirname(from); directory !== dirname(directory); directory = dirname(directory)) {
		const images = join(directory, "images");
		if (existsSync(join(images, "node", "Dockerfile"))) return images;
	}
	throw new SandboxError("unsupported", "the folder images/ of the package sandboxes is missing; install it again", {
		details: { what: "images/" },
	});
}

function toRecipe(runtime: string, value: unknown, shipped: Recipe | undefined): Recipe {
	const field = `images.${runtime}`;
	if (!RUNTIME_NAME.test(runtime) || runtime.length > MAX_RUNTIME_LENGTH)
		throw invalid("images", "runtime names of lower-case letters, digits and single . _ - between them", runtime);
	const options = typeof value === "string" ? { context: value } : asRecord(field, value);
	refuseUnknownKeys(field, options, ["context", "buildArgs"]);
	const { context = shipped?.context, buildArgs: rawArguments = {} } = options;
	if (typeof context !== "string" || context === "")
		throw invalid(`${field}.context`, "the path of a folder with a Dockerfile", context);
	const absolute = resolve(context);
	if (!existsSync(join(absolute, "Dockerfile")))
		throw invalid(`${field}.context`, "the path of a folder with a Dockerfile", context);
	const buildArgs: Record<string, string> = {};
	for (const [name, argument] of Object.entries(asRecord(`${field}.buildArgs`, rawArguments))) {
		if (typeof argument !== "string") throw invalid(`${field}.buildArgs.${name}`, "a string", argument);
		buildArgs[name] = argument;
	}
	return { runtime, context: absolute, buildArgs };
}

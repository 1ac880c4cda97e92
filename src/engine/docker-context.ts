/** Reads where the docker client's current context points: `$DOCKER_CONFIG/config.json` and the context's `meta.json`. */
import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { invalid } from "../primitives/checks.js";
import { isJsonObject, objectOf, textOf } from "./json-fields.js";

export interface DockerContext {
	readonly name: string;
	readonly host: string;
	/** Directory of `ca.pem`, `cert.pem` and `key.pem`, where the context has one. */
	readonly certPath?: string;
}

/** The directory of the docker client's settings. */
export function dockerConfigDir(env: NodeJS.ProcessEnv): string {
	return env["DOCKER_CONFIG"] || join(env["HOME"] || homedir(), ".docker");
}

/**
 * The context that DOCKER_CONTEXT or else the settings name; `undefined` for none and for `default`.
 * Unreadable settings count as none, as with the docker client. A named context that is not there is refused with `invalid_input`.
 */
export function currentDockerContext(env: NodeJS.ProcessEnv): DockerContext | undefined {
	const dir = dockerConfigDir(env);
	const name = env["DOCKER_CONTEXT"] || textOf(readJson(join(dir, "config.json"))?.["currentContext"]);
	if (name === "" || name === "default") return undefined;
	// Contexts are stored under the hash of their name. Only who uses them pays for loading node:crypto.
	const id = process.getBuiltinModule("node:crypto").createHash("sha256").update(name).digest("hex");
	const endpoint = objectOf(
		objectOf(readJson(join(dir, "contexts", "meta", id, "meta.json"))?.["Endpoints"])["docker"],
	);
	const host = textOf(endpoint["Host"]);
	if (host === "")
		throw invalid(
			env["DOCKER_CONTEXT"] ? "DOCKER_CONTEXT" : "current docker context",
			"a context that exists and has a docker endpoint",
			name,
			"see `docker context ls`, or set DOCKER_HOST",
		);
	const certPath = join(dir, "contexts", "tls", id, "docker");
	return existsSync(certPath) ? { name, host, certPath } : { name, host };
}

function readJson(path: string): Readonly<Record<string, unknown>> | undefined {
	try {
		const value: unknown = JSON.parse(readFileSync(path, "utf8"));
		return isJsonObject(value) ? value : undefined;
	} catch {
		return undefined;
	}
}

/** Where the engine is asked: from what the caller gave, the environment, the docker client's context, or the usual sockets. */
import { existsSync } from "node:fs";
import { invalid } from "../primitives/checks.js";
import { SandboxError } from "../primitives/errors.js";
import { currentDockerContext, dockerConfigDir } from "./docker-context.js";

export type EngineAddress =
	| { readonly kind: "unix"; readonly address: string; readonly socketPath: string }
	| {
			readonly kind: "tcp";
			readonly address: string;
			readonly host: string;
			readonly port: number;
			/** TLS with verification. The directory may hold `ca.pem`, `cert.pem` and `key.pem`; left out, the system's authorities. */
			readonly tls?: { readonly certPath?: string };
	  };

const USUAL_SOCKET = "/var/run/docker.sock";

/**
 * The address to use: `given`, else DOCKER_HOST, else the current docker context (DOCKER_CONTEXT or the client's
 * settings), else `/var/run/docker.sock`, else the user's own socket in XDG_RUNTIME_DIR where only that exists.
 * Proxy variables are never looked at.
 *
 * Takes `unix://`, `tcp://`, `http://`, `https://`, an absolute path, and `host:port`. With DOCKER_TLS_VERIFY or
 * DOCKER_CERT_PATH a `tcp://` address means TLS, and the server is always verified.
 * Throws `unsupported` for `ssh://`, `npipe://` and other ways, `invalid_input` for what cannot be read.
 */
export function resolveEngineAddress(given?: string, env: NodeJS.ProcessEnv = process.env): EngineAddress {
	if (given !== undefined) return parseAddress("engine", given, env);
	const named = env["DOCKER_HOST"];
	if (named) return parseAddress("DOCKER_HOST", named, env);
	const context = currentDockerContext(env);
	if (context) return parseAddress(`docker context ${context.name}`, context.host, env, context.certPath);
	const runtimeDir = env["XDG_RUNTIME_DIR"];
	if (runtimeDir && !existsSync(USUAL_SOCKET)) {
		const own = `${runtimeDir}/docker.sock`;
		if (existsSync(own)) return unix(own);
	}
	return unix(USUAL_SOCKET);
}

function parseAddress(field: string, text: string, env: NodeJS.ProcessEnv, contextCerts?: string): EngineAddress {
	const value = text.trim();
	if (value.startsWith("/")) return unix(value);
	if (value.startsWith("unix://")) {
		const path = value.slice("unix://".length) || USUAL_SOCKET;
		if (!path.startsWith("/"))
			throw invalid(field, "unix:// and an absolute path", text, "as in unix:///run/docker.sock");
		return unix(path);
	}
	const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(value)?.[1]?.toLowerCase();
	if (scheme !== undefined && !["tcp", "http", "https"].includes(scheme)) throw notSpoken(field, scheme);
	return tcp(field, value, scheme ?? "tcp", env, contextCerts);
}

function unix(socketPath: string): EngineAddress {
	if (socketPath.includes("\0")) throw invalid("engine", "a path without NUL", socketPath);
	return { kind: "unix", address: `unix://${socketPath}`, socketPath };
}

function tcp(
	field: string,
	value: string,
	scheme: string,
	env: NodeJS.ProcessEnv,
	contextCerts: string | undefined,
): EngineAddress {
	const expected = "unix:///PATH, tcp://HOST:PORT or https://HOST:PORT";
	let url: URL;
	try {
		// The schemes that URL knows drop their default port: `scheme:` keeps `http://h:80` readable all the same.
		url = new URL(`engine://${value.replace(/^[a-z][a-z0-9+.-]*:\/\//i, "")}`);
	} catch {
		throw invalid(field, expected, withoutUser(value));
	}
	if (
		url.hostname === "" ||
		url.username !== "" ||
		url.password !== "" ||
		/[^/]/.test(url.pathname) ||
		url.search !== ""
	)
		throw invalid(field, `${expected}, without user, path or query`, withoutUser(value));
	const certPath = contextCerts ?? (env["DOCKER_CERT_PATH"] || undefined);
	const secure =
		scheme === "https" || (scheme === "tcp" && (certPath !== undefined || Boolean(env["DOCKER_TLS_VERIFY"])));
	const port = url.port === "" ? usualPort(scheme, secure) : Number(url.port);
	const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
	const address = `${secure && scheme === "tcp" ? "https" : scheme}://${url.hostname}:${port}`;
	if (!secure) return { kind: "tcp", address, host, port };
	const certs = certPath ?? (env["DOCKER_TLS_VERIFY"] ? dockerConfigDir(env) : undefined);
	return { kind: "tcp", address, host, port, tls: certs === undefined ? {} : { certPath: certs } };
}

function usualPort(scheme: string, secure: boolean): number {
	if (scheme === "http") return 80;
	if (scheme === "https") return 443;
	return secure ? 2376 : 2375;
}

function withoutUser(value: string): string {
	return value.replace(/\/\/[^/@]*@/, "//***@");
}

function notSpoken(field: string, scheme: string): SandboxError<"unsupported"> {
	return new SandboxError("unsupported", `${field}: an engine at ${scheme}:// is not supported`, {
		details: { what: `engine address ${scheme}://` },
		hint: "workspaces are mounted from this machine, so the engine must run here: use unix:// or tcp://",
	});
}

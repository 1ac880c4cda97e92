/** The one border where what the engine or the way to it answers becomes a `SandboxError`. */
import { type EngineFailure, SandboxError, systemCode, type UnreachableCause } from "../primitives/errors.js";

const HINTS: Readonly<Record<UnreachableCause, string>> = {
	not_found: "start the engine, or say where it is with DOCKER_HOST or the `engine` option",
	permission: "run as a user who may open the socket (often a member of the group `docker`)",
	refused: "nothing listens there: start the engine, or say where it is with DOCKER_HOST or the `engine` option",
	timeout: "see whether the engine hangs (`docker version`), or say where it is with DOCKER_HOST",
	closed: "see whether the engine has just been stopped or restarted, then try again",
	not_an_engine: "check the address (DOCKER_HOST): what answers there does not speak the Docker Engine API",
	other: "see whether `docker version` reaches the engine at this address",
};

/** No engine could be heard at this address. `detail` ends the sentence "no engine at ADDRESS: …". */
export function unavailable(
	address: string,
	reason: UnreachableCause,
	detail: string,
	cause?: unknown,
): SandboxError<"engine_unavailable"> {
	return new SandboxError("engine_unavailable", `no engine answers at ${address}: ${detail}`, {
		details: { address, reason },
		hint: HINTS[reason],
		cause,
	});
}

/** {@link unavailable} for an error that a socket, a name look-up or TLS gave. */
export function unavailableBecause(address: string, error: unknown): SandboxError<"engine_unavailable"> {
	const code = systemCode(error) ?? "";
	const [reason, detail] = explain(code, error);
	return unavailable(address, reason, detail, error);
}

function explain(code: string, error: unknown): readonly [UnreachableCause, string] {
	switch (code) {
		case "ENOENT":
			return ["not_found", "there is no such socket"];
		case "ENOTDIR":
			return ["not_found", "the path leads through something that is not a directory"];
		case "ENOTFOUND":
		case "EAI_AGAIN":
			return ["not_found", "the host name is not known"];
		case "EACCES":
		case "EPERM":
			return ["permission", "permission denied"];
		case "ECONNREFUSED":
		case "ENOTSOCK":
			return ["refused", "connection refused"];
		case "ETIMEDOUT":
			return ["timeout", "the connection timed out"];
		case "EHOSTUNREACH":
		case "ENETUNREACH":
		case "EHOSTDOWN":
			return ["not_found", "the host cannot be reached"];
		case "ECONNRESET":
		case "EPIPE":
			return ["closed", "the connection was closed"];
		case "EPROTO":
			return ["not_an_engine", "what answers there does not speak TLS"];
		default:
			return ["other", error instanceof Error && error.message !== "" ? error.message : code || String(error)];
	}
}

/** What a call is about: decides what a bare "not found" means. */
export type Subject = "container" | "exec" | "image" | "network" | "engine";

/**
 * Why the engine refused, from its status and its own sentence.
 *
 * Both are needed (seen on API 1.41): an unknown image on create is a 404 like a missing container; a name that is
 * taken, a container that does not run, one that is paused and a removal under way are all 409; a port that is taken is 500.
 */
export function failureOf(status: number, sentence: string, subject: Subject): EngineFailure {
	const says = (pattern: RegExp): boolean => pattern.test(sentence);
	if (says(/port is already allocated|address already in use|bind for .* failed/i)) return "port_taken";
	if (says(/removal of container .* already in progress|marked for removal/i)) return "removal_in_progress";
	if (says(/active endpoints|has associated containers|being used by|network is in use/i)) return "network_in_use";
	if (status === 404) {
		if (says(/no such image/i)) return "no_such_image";
		if (says(/no such exec/i)) return "no_such_exec";
		if (says(/network .*not found|no such network/i)) return "no_such_network";
		if (says(/no such container/i) || subject === "container") return "no_such_container";
		if (subject === "exec") return "no_such_exec";
		if (subject === "image") return "no_such_image";
		if (subject === "network") return "no_such_network";
		return "other";
	}
	if (status === 409 || status === 403) {
		if (says(/name .*already in use|already exists/i)) return "name_taken";
		if (says(/is paused|already paused|paused container/i)) return "paused";
		if (says(/not running|is restarting|state improper/i)) return "not_running";
		return "other";
	}
	if (status === 400 || status === 405 || status === 406) return "bad_request";
	return status >= 500 ? "server_error" : "other";
}

/** The engine was heard, and said no. `what` is what was attempted, as in `creating container web`. */
export function refused(
	what: string,
	status: number,
	sentence: string,
	subject: Subject,
): SandboxError<"engine_failed"> {
	const failure = failureOf(status, sentence, subject);
	return engineFailed(what, status, failure, sentence);
}

/** {@link refused} with the reason already known. */
export function engineFailed(
	what: string,
	status: number,
	failure: EngineFailure,
	sentence: string,
): SandboxError<"engine_failed"> {
	const said = sentence.trim() || `it gave no reason (HTTP ${status})`;
	return new SandboxError("engine_failed", `${what}: ${said}`, { details: { status, failure, call: what } });
}

/** An id as messages show it; a name stays as it is. */
export function shortId(idOrName: string): string {
	return /^[0-9a-f]{64}$/.test(idOrName) ? idOrName.slice(0, 12) : idOrName;
}

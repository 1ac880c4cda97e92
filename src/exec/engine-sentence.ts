/** The engine's own sentence about a process it could not start, which comes where the output would be. */

/** Why a process was not started, in our words. */
export type StartFailure =
	| "no_shell"
	| "not_found"
	| "not_executable"
	| "bad_cwd"
	| "no_user"
	| "no_room"
	| "ended"
	| "other";

/** How such sentences begin (containerd with runc and crun, and the engine's look-up of the user). */
const BEGINNINGS = ["OCI runtime ", "unable to find user ", "crun: ", "runc: "];

/** Whether this beginning of an output may still turn out to be the engine's sentence. */
export function mayBecomeSentence(text: string): boolean {
	return BEGINNINGS.some((beginning) => text.startsWith(beginning) || beginning.startsWith(text));
}

/** What stands in the way, if this text is the engine's sentence and not a command's output. */
export function startFailure(text: string): StartFailure | undefined {
	if (!/^[^\n]+\r?\n?$/.test(text) || !BEGINNINGS.some((beginning) => text.startsWith(beginning))) return undefined;
	if (/^unable to find user|no matching entries in passwd/.test(text)) return "no_user";
	if (/cannot exec in a (?:stopped|paused|deleted)|container (?:is not running|has been stopped)/.test(text))
		return "ended";
	if (
		/outside of container mount namespace root|chdir to cwd|[Cc]wd must|mkdir [^\n]*: (?:not a directory|file exists)/.test(
			text,
		)
	)
		return "bad_cwd";
	if (/resource temporarily unavailable|cannot allocate memory|EAGAIN/i.test(text)) return "no_room";
	if (/"sh"[^\n]*(?:not found|no such file)/i.test(text)) return "no_shell";
	if (/executable file (?:not found|`[^`]*` not found)|no such file or directory/i.test(text)) return "not_found";
	if (/permission denied|is a directory|exec format error/i.test(text)) return "not_executable";
	return "other";
}

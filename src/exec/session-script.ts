/**
 * The shell text of a session: a loop that reads one line per command, runs it as {@link RUN_ONE} does, and says whether it can
 * be used again. It knows nothing of engines and runs in busybox ash, dash and bash.
 *
 * The first line is the session's key. Every other is `<key> <nonce> <deadline> <input> <cwd> <marker> <word>… #<nonce>`: words
 * in shell quotes, which the closing nonce (a comment to the shell) shows to be complete. `read` takes bytes one by one in
 * all three shells, so nothing behind a line is swallowed. A line without the key (nothing that was left unread can be taken
 * for a command) or without its closing nonce ends the session, and nothing of it has run. Past its deadline a command does not begin.
 *
 * After a command the loop says on stdout `<nonce> C <uptime>`: it waits for the next line; or `<nonce> D`: a process that
 * the command left behind holds the streams, so the loop takes no more and only waits for it to let go. Times are those of
 * `/proc/uptime` in hundredths of a second.
 */
import { CLOCK, HELD, PREPARE, quoted, RUN_ONE, SCRIPT_VARIABLE, SET_VARIABLE } from "./runner.js";

/**
 * SIGTERM ends it where it waits for a line, and after the command where one runs, so that a container that is stopped need not
 * wait for it. 7 is the way in.
 */
export const SESSION = `unset ${SCRIPT_VARIABLE} ${SET_VARIABLE}
exec 7<&0 </dev/null
${PREPARE}
${RUN_ONE}
${HELD}
__sbx_nl='
'
${CLOCK}
__sbx_one() {
case $1 in
-) shift; __sbx_run "$__sbx_id" "$@" ;;
=*) __sbx_in=\${1#=}; shift; printf %b "$__sbx_in" | { trap '' TERM; __sbx_run "$__sbx_id" "$@"; } ;;
esac
}
[ -p /proc/self/fd/8 ] && [ /proc/self/fd/8 -ef /proc/self/fd/8 ] && ! [ /proc/self/fd/7 -ef /proc/self/fd/8 ] && __sbx_clock || exit
IFS= read -r __sbx_key <&7 || exit
__sbx_end=
while trap - TERM; [ -z "$__sbx_end" ] && IFS=' ' read -r __sbx_k __sbx_id __sbx_t __sbx_l <&7; do
trap __sbx_end=1 TERM
[ "$__sbx_k" = "$__sbx_key" ] || exit
case $__sbx_l in *" #$__sbx_id") ;; *) exit ;; esac
eval "__sbx_one $__sbx_l"
if __sbx_held; then
echo "$__sbx_id D" >&8
__sbx_linger
exit
fi
__sbx_clock
echo "$__sbx_id C $__sbx_up" >&8
done`;

/** What the exec of a session is given. In a list of processes it is an `sbx-session`. */
export const SESSION_CALL: { readonly argv: readonly string[]; readonly env: Readonly<Record<string, string>> } = {
	argv: ["sh", "-c", `eval "$${SCRIPT_VARIABLE}"`, "sbx-session"],
	env: { [SCRIPT_VARIABLE]: SESSION },
};

/** The longest line: a shell reads it byte by byte, and beyond this an exec of the engine is quicker. */
export const MAX_LINE_BYTES = 16 * 1024;
/** The longest input that travels in the line: what a pipe takes at once in any case, so that whoever writes it never waits. */
export const MAX_INLINE_INPUT_BYTES = 4096;

export interface RequestLine {
	readonly key: string;
	readonly nonce: string;
	/** In hundredths of a second of the sandbox's uptime. Left out: none. */
	readonly deadline: number | undefined;
	readonly input: Uint8Array | undefined;
	readonly cwd: string;
	readonly marker: string;
	readonly words: readonly string[];
}

/** The part of a line that does not change with the session, or `undefined` where it is too long for one. */
export function lineBody(request: Pick<RequestLine, "input" | "cwd" | "marker" | "words">): Buffer | undefined {
	const { input, cwd, marker, words } = request;
	if (input && input.length > MAX_INLINE_INPUT_BYTES) return undefined;
	let length = 0;
	for (const word of words) length += word.length;
	if (length > MAX_LINE_BYTES) return undefined;
	const parts = [
		inputWord(input),
		onOneLine(quoted(cwd)),
		quoted(marker),
		...words.map((word) => onOneLine(quoted(word))),
	];
	const body = Buffer.from(parts.join(" "), "latin1");
	return body.length <= MAX_LINE_BYTES ? body : undefined;
}

/** A whole line, as it goes over the wire. */
export function toLine(key: string, nonce: string, deadline: number | undefined, body: Buffer): Buffer {
	return Buffer.concat([Buffer.from(`${key} ${nonce} ${deadline ?? "-"} `), body, Buffer.from(` #${nonce}\n`)]);
}

/** Quoted words as bytes in a string of one character each, their line ends taken from a variable. */
function onOneLine(text: string): string {
	return Buffer.from(text).toString("latin1").replaceAll("\n", `'"$__sbx_nl"'`);
}

/** Bytes as the `%b` of `printf` reads them. */
function inputWord(input: Uint8Array | undefined): string {
	if (!input) return "-";
	const text = Buffer.from(input.buffer, input.byteOffset, input.byteLength).toString("latin1");
	const escaped = text.replace(/[\0\n\\]/g, (char) => `\\0${char.charCodeAt(0).toString(8).padStart(3, "0")}`);
	return quoted(`=${escaped}`);
}

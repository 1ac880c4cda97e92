/**
 * The shell text behind a stateful shell: it runs one command after the other in itself, so that what one changes the next finds.
 * It knows nothing of engines and runs in busybox ash, dash and bash.
 *
 * A request is one line: `<nonce> <marker> <quoted text>`. The answer is `<nonce>K <its background jobs>` and `<nonce> P` on stdout and
 * `<nonce> P` on stderr before the command's own output, `<nonce> <status>` and `<nonce> E` after it. Every process that the command
 * starts carries the marker.
 */
import { MARKER_VARIABLE } from "./runner.js";
import { END_TREE } from "./tree-script.js";

const SCRIPT_VARIABLE = "__sbx_script";

/**
 * `command eval` and not `eval`: a mistake in the text is then no end of the shell. The loop of one turn around it is what a stray
 * `break` leaves. The streams of the shell's own are closed while a command runs, so no child inherits them.
 */
const LOOP = `while :; do
IFS= read -r __sbx_l <&7 || {
[ -n "$__sbx_w" ] || exit 0
__sbx_w=
continue
}
__sbx_n=\${__sbx_l%% *} __sbx_l=\${__sbx_l#* }
export ${MARKER_VARIABLE}="\${__sbx_l%% *}"
eval "__sbx_c=\${__sbx_l#* }"
__sbx_l= __sbx_k=
read -r __sbx_k </proc/$$/task/$$/children || :
command echo "\${__sbx_n}K $__sbx_k" >&8
command echo "$__sbx_n P" >&8
command echo "$__sbx_n P" >&9
for __sbx_i in 1; do
case $- in *e*) ;; *) __sbx_status "$__sbx_q" ;; esac
command eval "$__sbx_c"
done >&8 2>&9 7<&- 8>&- 9>&-
__sbx_q=$?
command echo "$__sbx_n $__sbx_q" >&8
command echo "$__sbx_n E" >&9
__sbx_n=
done
exit 0`;

/**
 * What is done at SIGURG: leave the command that runs, whatever else it wanted to do, and go on with the next. A shell cannot
 * be told to give up a list of commands, but it need never come back from a trap. The shell's own streams are found again
 * among the copies that it keeps of what it closed.
 */
const LEAVE = `if [ -z "$__sbx_n" ]; then
__sbx_w=1
else
for __sbx_f in /proc/$$/fd/*; do
case $(readlink "$__sbx_f") in
"$__sbx_in") __sbx_a=$__sbx_f ;;
"$__sbx_out") __sbx_b=$__sbx_f ;;
"$__sbx_err") __sbx_d=$__sbx_f ;;
esac
done
exec 7<"$__sbx_a" 8>"$__sbx_b" 9>"$__sbx_d" </dev/null >/dev/null 2>&1
__sbx_q=143
command echo "$__sbx_n 143" >&8
command echo "$__sbx_n E" >&9
__sbx_n=
eval "$__sbx_loop"
fi`;

const BOOT = `unset ${SCRIPT_VARIABLE}
__sbx_in=$(readlink /proc/$$/fd/0) __sbx_out=$(readlink /proc/$$/fd/1) __sbx_err=$(readlink /proc/$$/fd/2)
exec 7<&0 8>&1 9>&2 </dev/null >/dev/null 2>&1
__sbx_nl='
' __sbx_q=0 __sbx_n= __sbx_w=
__sbx_status() { return "$1"; }
__sbx_loop=$__sbx_loop_text __sbx_leave=$__sbx_leave_text
unset __sbx_loop_text __sbx_leave_text
trap 'eval "$__sbx_leave"' URG
eval "$__sbx_loop"`;

/** The command that is such a shell. The script travels in variables: in a list of processes it is a shell without arguments. */
export function shellCall(program: string): {
	readonly argv: readonly string[];
	readonly env: Readonly<Record<string, string>>;
} {
	return {
		argv: [program, "-c", `eval "$${SCRIPT_VARIABLE}"`, "sh"],
		env: { [SCRIPT_VARIABLE]: BOOT, __sbx_loop_text: LOOP, __sbx_leave_text: LEAVE },
	};
}

/** The line that asks for one command. `marker` is not the nonce: the command sees it. */
export function requestLine(nonce: string, marker: string, text: string): string {
	const word = `'${text.replaceAll("'", "'\\''").replaceAll("\n", `'"$__sbx_nl"'`)}'`;
	return `${nonce} ${marker} ${word}\n`;
}

/** The pids that a shell said were its background jobs when a command began. */
export function jobsIn(nonce: string, preamble: string): string {
	return new RegExp(`${nonce}K ([\\d ]*)\\n`).exec(preamble)?.[1]?.trim() ?? "";
}

/**
 * Ends what the running command of such a shell has started, and tells the shell to leave the command. Arguments: marker, pid of
 * the shell, grace in centiseconds, pids of jobs to be spared, the word in `CANARY_VARIABLE`. Answers as {@link END_TREE}.
 *
 * The signal goes first, so that the shell leaves as soon as its child has ended and starts nothing more. Children that never
 * became another program do not carry the marker and are known by their parent.
 */
export const LEAVE_COMMAND = `kill -URG "$2" 2>/dev/null
child() {
l=
while IFS= read -r x; do l="$l$x"; done <"/proc/$1/stat" || return 1
p=$1 s=$2
set -- \${l##*) }
[ "$2" = "$s" ] && t=\${20}
}
known=
for d in /proc/[0-9]*; do
case " $4 " in *" \${d#/proc/} "*) continue ;; esac
child "\${d#/proc/}" "$2" 2>/dev/null && known="$known $p:$t"
done
set -- "$1" 0 "$3" "$known" "$5"
${END_TREE}`;

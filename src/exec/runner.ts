/**
 * The shell text that starts one command and tells how it ended. It knows nothing of engines.
 *
 * It runs in busybox ash, dash and bash, whatever the image's `sh` is. Its own lines on the command's streams begin with
 * a nonce that the command is not told: `<nonce> P<pid>` on stdout and `<nonce> P` on stderr when the command is about to
 * run, `<nonce> <status>` on stdout and `<nonce> E` on stderr when it has ended. A status without a `P` before it is
 * the runner's own: 125, the working directory cannot be entered; 124, it would have begun too late. ` s` after the status says that a signal ended the command;
 * ` o<n>` and ` p<n>`, how many processes of the sandbox were meanwhile killed for memory and refused for their number, as its
 * cgroup counts them (version 1 or 2). `L` for a status: the shell which waited for it was killed.
 */

/** The variable every process of a command inherits, so that all of them can be found again. */
export const MARKER_VARIABLE = "SANDBOXES_EXEC";

export const SCRIPT_VARIABLE = "__sbx_script";
export const SET_VARIABLE = "__sbx_set";

const SIGNALS = "HUP INT QUIT TERM USR1 USR2";

/** Reads the time of `/proc/uptime` in hundredths of a second. */
export const CLOCK = `__sbx_clock() {
read -r __sbx_up __sbx_x </proc/uptime
__sbx_up=\${__sbx_up%.*}\${__sbx_up#*.}
}`;

/**
 * Enters the working directory and becomes the command. Expects `$1` nonce, `$2` cwd, `$3` marker, then the command.
 * Where `/proc/self` leads tells the pid of a subshell, which `$$` does not, and spares reading a file byte by byte. `setsid` makes it the pid of a group and session too.
 * `__sbx_t` is the time until which the command may begin, `-` or not set for any: later it does not, and the status is 124.
 * PWD, OLDPWD and SHLVL are the shell's doing: a process of its own would not have them.
 */
const BECOME_COMMAND = `cd -P /proc/self && __sbx_p=\${PWD##*/}
cd -P -- "$2" || exit 125
export ${MARKER_VARIABLE}="$3"
unset PWD OLDPWD SHLVL ${SCRIPT_VARIABLE} ${SET_VARIABLE}
[ "\${__sbx_t:--}" = - ] || { __sbx_clock; [ "$__sbx_up" -le "$__sbx_t" ]; } || exit 124
echo "$1 P$__sbx_p"`;

/**
 * A function that runs one command on the streams 8 and 9 and writes the lines above, for a shell whose own streams lead
 * nowhere and which ignores ${SIGNALS}. What the waiting shell has to say of a signal ("Killed") goes into a
 * variable and never to the command's streams. Signals are ignored and not trapped, so that no moment is left open.
 */
export const RUN_ONE = `__sbx_read() {
while read -r __sbx_k __sbx_v __sbx_x; do
[ "$__sbx_k" = "$2" ] && eval "$3=$__sbx_v" && return
done 2>/dev/null <"/sys/fs/cgroup/$1"
}
__sbx_count() {
__sbx_o= __sbx_p=
__sbx_read "$__sbx_of" oom_kill __sbx_o
__sbx_read "$__sbx_pf" max __sbx_p
}
__sbx_of=memory.events __sbx_pf=pids.events
[ -r /sys/fs/cgroup/memory.events ] || __sbx_of=memory/memory.oom_control __sbx_pf=pids/pids.events
__sbx_run() {
__sbx_count
__sbx_ob=$__sbx_o __sbx_pb=$__sbx_p
__sbx_m=$(
trap '' TERM
exec 2>&1
(
trap - ${SIGNALS}
exec >&8 2>&9 7<&- 8>&- 9>&-
${BECOME_COMMAND}
echo "$1 P" >&2
shift 3
command -v setsid >/dev/null && exec setsid -- "$@"
exec "$@"
)
echo "#$?"
)
__sbx_s=
case $__sbx_m in '#'*) ;; *'#'*) __sbx_s=' s' ;; *) __sbx_m='#L' ;; esac
__sbx_count
[ -z "$__sbx_ob" ] || [ "$__sbx_m" = '#L' ] || __sbx_s="$__sbx_s o$((__sbx_o - __sbx_ob))"
[ -z "$__sbx_pb" ] || [ "$__sbx_m" = '#L' ] || __sbx_s="$__sbx_s p$((__sbx_p - __sbx_pb))"
echo "$1 \${__sbx_m##*#}$__sbx_s" >&8
echo "$1 E" >&9
}`;

/** Puts the streams where {@link RUN_ONE} expects them. */
export const PREPARE = `exec 8>&1 9>&2 >/dev/null 2>&1
trap '' ${SIGNALS}`;

/** Whether any other process of this user holds the streams 8 and 9 as one of its first ten descriptors, and the wait until none does. They are pipes. */
export const HELD = `__sbx_held() {
for __sbx_f in /proc/[0-9]*/fd/[1-9]; do
case $__sbx_f in /proc/$$/*) continue ;; esac
[ -p "$__sbx_f" ] || continue
[ "$__sbx_f" -ef /proc/self/fd/8 ] || [ "$__sbx_f" -ef /proc/self/fd/9 ] && return 0
done
return 1
}
__sbx_linger() {
__sbx_i=0
while __sbx_held; do
__sbx_i=$((__sbx_i + 1))
if [ "$__sbx_i" -gt 20 ]; then sleep 1; else sleep 0.1 || sleep 1; fi
done
}`;

/**
 * One command, then the wait for what it left behind: while a background child holds the streams, this process stays, because
 * the engine closes them soon after it goes and the child would die of SIGPIPE at its next word.
 */
export const ONE_SHOT = `${PREPARE}
${RUN_ONE}
${HELD}
__sbx_run "$@"
__sbx_linger`;

/**
 * Becomes the command on a terminal, whose session leader it already is. The status is the process's own. An engine tells the
 * terminal its size only once the command runs (API before 1.42), so the runner does it where the image has `stty`.
 */
export function onTerminal({ columns, rows }: { readonly columns: number; readonly rows: number }): string {
	return `stty rows ${rows} cols ${columns} 2>/dev/null
${BECOME_COMMAND}
shift 3
exec "$@"`;
}

export interface RunnerArguments {
	readonly nonce: string;
	readonly cwd: string;
	readonly marker: string;
	readonly argv: readonly string[];
	readonly env: Readonly<Record<string, string>>;
}

/** What an exec of the engine is given to run a runner. */
export interface RunnerCall {
	readonly argv: readonly string[];
	readonly env: Readonly<Record<string, string>>;
}

/** Room for the command's own text in one variable, below the kernel's limit for one. */
const MAX_SET_BYTES = 120 * 1024;

/**
 * The exec that runs a script on a command. Script and command travel in variables, which the script takes away again: in a list of
 * processes the runner is just `sbx-exec`, so that `pkill -f 'node server.js'` finds the command and not what waits for it.
 * Only a very long command goes the way of arguments.
 */
export function runnerCall(script: string, run: RunnerArguments): RunnerCall {
	const words = [run.nonce, run.cwd, run.marker, ...withEnv(run.argv, run.env)];
	const set = `set -- ${words.map(quoted).join(" ")}`;
	return Buffer.byteLength(set) <= MAX_SET_BYTES
		? {
				argv: ["sh", "-c", `eval "$${SET_VARIABLE}"; eval "$${SCRIPT_VARIABLE}"`, "sbx-exec"],
				env: { [SCRIPT_VARIABLE]: script, [SET_VARIABLE]: set },
			}
		: {
				argv: ["sh", "-c", `eval "$${SCRIPT_VARIABLE}"`, "sbx-exec", ...words],
				env: { [SCRIPT_VARIABLE]: script },
			};
}

/** A word as a shell reads it back byte for byte. */
export function quoted(word: string): string {
	return `'${word.replaceAll("'", "'\\''")}'`;
}

/**
 * The command under `env`, when it has variables. A shell would drop names that are no identifiers (`a.b`) and would itself
 * heed others (PATH, IFS, LC_ALL, LD_PRELOAD), so none of them is given to the runner.
 */
export function withEnv(argv: readonly string[], env: Readonly<Record<string, string>>): readonly string[] {
	const pairs = Object.entries(env).map(([name, value]) => `${name}=${value}`);
	if (pairs.length === 0) return argv;
	// `env` would take a program name with "=" for one more variable.
	const named = argv[0]?.includes("=") ? ["sh", "-c", 'exec "$@"', "sh", ...argv] : argv;
	return ["env", "--", ...pairs, ...named];
}

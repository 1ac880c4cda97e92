/**
 * The shell text that starts a background process and keeps its output and its status in a directory. It knows nothing of engines.
 *
 * It runs in busybox ash, dash and bash, whatever the image's `sh` is, and asks `dd` and `wc` of the image. In the directory are:
 * `spec`, what was asked for; `pid`, the line `<pid> <start> <keeper's pid> <its start> <boot id>`; `stdout.<n>` and `stderr.<n>`, at
 * most two of each, where n is the number of the first byte in it; and `exit`, the status, once all is known. All of it can be
 * changed by what runs in the sandbox.
 */
import { MARKER_VARIABLE, quoted, withEnv } from "./runner.js";

const SCRIPT_VARIABLE = "__sbx_script";
const SET_VARIABLE = "__sbx_set";
/** Room for the command's own text in one variable, below the kernel's limit for one. */
const MAX_SET_BYTES = 120 * 1024;
const SIGNALS = "HUP INT QUIT TERM USR1 USR2";

/** Sets `__sbx_p` and `__sbx_t` to the pid and start of the process that calls it, which may be a subshell. */
const WHO = `__sbx_who() {
__sbx_l=
while IFS= read -r __sbx_x; do __sbx_l="$__sbx_l$__sbx_x"; done </proc/self/stat
__sbx_p=\${__sbx_l%% *}
set -- \${__sbx_l##*) }
__sbx_t=\${20}
}`;

/**
 * Copies its input into `$1.<n>`, and begins another file when one nears `$2` bytes; the one before is kept, those before that go.
 * `dd` and not `cat`, because it can stop in time and loses nothing; it writes at once what it reads. Twice no growth is the
 * end of the input: once may be somebody's emptying of the file. Where no more can be written the input is read on, so that the
 * process never stands still, or dies, for its log.
 */
const KEEP = `__sbx_keep() {
__sbx_at=0 __sbx_old= __sbx_z=
while :; do
__sbx_f=$1.$__sbx_at __sbx_n=0
: >"$__sbx_f"
while __sbx_r=$((($2 - __sbx_n) / 4096)); [ "$__sbx_r" -gt $(($2 / 65536)) ]; do
dd bs=4096 count="$__sbx_r" >>"$__sbx_f" && [ -e "$__sbx_f" ] || exec cat
__sbx_b=$__sbx_n
__sbx_n=$(wc -c <"$__sbx_f")
__sbx_n=$((__sbx_n))
if [ "$__sbx_n" -ne "$__sbx_b" ]; then __sbx_z=
elif [ -z "$__sbx_z" ]; then __sbx_z=1
else
: >"$1.end"
return
fi
done
[ -z "$__sbx_old" ] || rm -f "$__sbx_old"
__sbx_old=$__sbx_f
__sbx_at=$((__sbx_at + __sbx_n))
done
}`;

/**
 * The process, on streams 1 and 3, and the wait for its end, whose own words ("Terminated") lead nowhere. What was written last shall be in the files before the end is told, but a child that holds
 * the streams must not delay it for more than a second.
 *
 * The shells around it are only there to connect the pipes and would hold these open: they are killed once both pipes have their
 * readers and the process is about to run. (Streams are moved by `exec`: a shell keeps what any other redirection replaces.) A shell's `&` is not used, because it leaves the process deaf to SIGINT for good.
 */
const CHILD = `__sbx_child() {
__sbx_who
__sbx_kp=$__sbx_p __sbx_kt=$__sbx_t
(
trap - ${SIGNALS}
exec 2>&3 3>&-
__sbx_who
__sbx_n=0
until [ -e "$2/stdout.0" ] && [ -e "$2/stderr.0" ] || [ "$__sbx_n" -gt 700 ]; do
__sbx_n=$((__sbx_n + 1))
[ "$__sbx_n" -lt 500 ] || sleep 0.01 || sleep 1
done
read -r __sbx_x </proc/sys/kernel/random/boot_id
echo "$__sbx_p $__sbx_t $__sbx_kp $__sbx_kt $__sbx_x" >"$2/pid" || exit 126
kill -KILL "$__sbx_s" "$__sbx_g"
export ${MARKER_VARIABLE}="$3"
shift 4
command -v setsid >/dev/null && exec setsid -- "$@"
exec "$@"
)
__sbx_n=$?
exec >/dev/null 3>&-
__sbx_x=0
until [ -e "$2/stdout.end" ] && [ -e "$2/stderr.end" ]; do
[ "$__sbx_x" -gt 50 ] && break
__sbx_x=$((__sbx_x + 1))
sleep 0.02 || { sleep 1; break; }
done
echo "$__sbx_n" >"$2/exit"
}`;

/** Expects `$1` bytes in a file, `$2` the directory, `$3` the marker, `$4` the text of `spec`, then the command. Tells `pid`'s line. */
const START = `unset PWD OLDPWD SHLVL ${SCRIPT_VARIABLE} ${SET_VARIABLE}
${WHO}
${KEEP}
${CHILD}
if ! { command -v dd && command -v wc; } >/dev/null; then
echo "this image has no dd or no wc" >&2
exit 1
fi
mkdir -p "\${2%/*}" && mkdir "$2" && printf '%s\\n' "$4" >"$2/spec" || exit 1
{ (
trap '' ${SIGNALS}
__sbx_who
__sbx_s=$__sbx_p
{
__sbx_who
__sbx_g=$__sbx_p
{ exec 2>/dev/null; __sbx_child "$@"; } | { exec >/dev/null 3>&-; __sbx_keep "$2/stdout" "$1"; }
} 3>&1 | __sbx_keep "$2/stderr" "$1"
) } </dev/null >/dev/null 2>&1
read -r __sbx_x <"$2/pid" && echo "$__sbx_x"`;

export interface BackgroundCall {
	/** The directory inside, not there yet. */
	readonly directory: string;
	/** Its name is also the marker that all its processes carry. */
	readonly id: string;
	/** How much of each stream is kept, in bytes: between a half and the whole of it. */
	readonly maxLogBytes: number;
	readonly spec: string;
	readonly argv: readonly string[];
	readonly env: Readonly<Record<string, string>>;
}

/**
 * The command that starts it. As with every runner, script and command travel in variables, so that `pkill -f 'node server.js'`
 * finds the process and not who keeps its log.
 */
export function backgroundCall(call: BackgroundCall): {
	readonly argv: readonly string[];
	readonly env: Readonly<Record<string, string>>;
} {
	const segment = String(Math.floor(call.maxLogBytes / 2));
	const words = [segment, call.directory, call.id, call.spec, ...withEnv(call.argv, call.env)];
	const set = `set -- ${words.map(quoted).join(" ")}`;
	return Buffer.byteLength(set) <= MAX_SET_BYTES
		? {
				argv: ["sh", "-c", `eval "$${SET_VARIABLE}"; eval "$${SCRIPT_VARIABLE}"`, "sbx-process"],
				env: { [SCRIPT_VARIABLE]: START, [SET_VARIABLE]: set },
			}
		: {
				argv: ["sh", "-c", `eval "$${SCRIPT_VARIABLE}"`, "sbx-process", ...words],
				env: { [SCRIPT_VARIABLE]: START },
			};
}

/** Arguments: `<id>:<boot id>:<pid>:<start>:<keeper's pid>:<its start>` each. Says the ids of those that still run. */
export const ALIVE = `read -r boot </proc/sys/kernel/random/boot_id
lives() {
[ -r "/proc/$1/stat" ] || return 1
l= p=$2
while IFS= read -r x; do l="$l$x"; done <"/proc/$1/stat" || return 1
set -- \${l##*) }
case $1 in ''|Z|X) return 1 ;; esac
[ "\${20}" = "$p" ]
}
for e; do
id=\${e%%:*} e=\${e#*:}
[ "\${e%%:*}" = "$boot" ] || continue
e=\${e#*:}
pid=\${e%%:*} e=\${e#*:}
start=\${e%%:*} e=\${e#*:}
if lives "$pid" "$start" || lives "\${e%%:*}" "\${e#*:}"; then echo "$id"; fi
done 2>/dev/null`;

/**
 * The main process of every container: it waits at no cost, and when the container is told to stop, it passes that on.
 *
 * The engine tells only the main process to end, and an init passes it on to its own child; commands started by an exec
 * would be killed without a word. This script tells every process it may signal and waits until none of them is left; the engine
 * kills what remains after the grace. It runs under the engine's init, in busybox ash, dash and bash.
 */

/**
 * `wait` and not a foreground `sleep`, because a shell acts on a signal only between foreground commands. One sleep without end
 * and not a loop of short ones: a shell that cannot fork (the limit of processes is reached) ends, and the container with it.
 * Whoever adds a watch to this loop has to look out for that. Runners (`sbx-exec`) ignore TERM and end with their commands.
 */
export const SUPERVISOR = `end() {
trap '' TERM INT HUP
kill -TERM -1 2>/dev/null
while others; do sleep 0.05 2>/dev/null || sleep 1; done
exit 0
}
others() {
for d in /proc/[0-9]*; do
p=\${d#/proc/}
case $p in 1|"$$") continue ;; esac
kill -0 "$p" 2>/dev/null || continue
l=
[ -r "$d/stat" ] && while IFS= read -r x; do l="$l$x"; done 2>/dev/null <"$d/stat"
set -- \${l##*) }
case $1 in ''|Z|X) ;; *) return 0 ;; esac
done
return 1
}
trap end TERM INT HUP
while :; do
sleep 2147483647 &
wait $!
done`;

/** What a container of ours runs as its main process. */
export const SUPERVISOR_COMMAND: readonly string[] = Object.freeze(["sh", "-c", SUPERVISOR]);

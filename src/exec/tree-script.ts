/**
 * The shell text that ends a command with everything it started, and nothing else.
 *
 * A process belongs to the command when it is in its process group or session, carries its marker in its environment, or
 * descends from one that belongs; who once belonged stays so (known by pid and start time). `kill -KILL -PGID` is the
 * form that dash, busybox and bash all understand. Zombies are dead. Zero forks are needed to kill the group, so it works
 * when no process can be started any more.
 */
import { MARKER_VARIABLE } from "./runner.js";

/** A variable the script itself carries with a word of its own: a `grep` that does not find it there is not believed. */
export const CANARY_VARIABLE = "SANDBOXES_END";

/**
 * Arguments: marker, pid of the command (or 0), grace in centiseconds, processes known to belong (` pid:start pid:start `),
 * the word in {@link CANARY_VARIABLE}. Environments hold NULs, which `grep -z` takes as line ends; where it is missing or does not
 * work, the shell reads them itself.
 * Answers on stdout: `U <uid> <pid>:<start>` for each process of another user, which only that user may end, and `.` after
 * them; at last `left:` and the pids that are still there.
 */
export const END_TREE = `m="${MARKER_VARIABLE}=$1" g=$2 grace=$3 set=" $4 " canary="${CANARY_VARIABLE}=$5"
[ "$g" -gt 1 ] 2>/dev/null || g=none
trap '' HUP INT QUIT TERM
trap 'kill -KILL "-$g" 2>/dev/null' EXIT
command -v grep >/dev/null && grep=1 || grep=
clock() {
read -r t x </proc/uptime
now=$((\${t%.*} * 100 + 1\${t#*.} - 100))
}
carries() {
if [ -n "$grep" ]; then
case $marked in *"/proc/$1/environ"*) return 0 ;; esac
return 1
fi
while IFS= read -r x || [ -n "$x" ]; do
case $x in *"$m"*) return 0 ;; esac
done 2>/dev/null <"/proc/$1/environ"
return 1
}
scan() {
procs= live= stray= foreign=
if [ -n "$grep" ]; then
marked=$(grep -zlsF -e "$m" -e "$canary" /proc/[0-9]*/environ; echo)
case $marked in *"/proc/$$/environ"*) ;; *) grep= ;; esac
fi
for d in /proc/[0-9]*; do
p=\${d#/proc/}
[ "$p" = "$$" ] && continue
l=
[ -r "$d/stat" ] && while IFS= read -r x; do l="$l$x"; done 2>/dev/null <"$d/stat"
set -- \${l##*) }
case $1 in ''|Z|X) continue ;; esac
procs="$procs $p:$2:$3:$4:\${20}"
done
more=1
while [ -n "$more" ]; do
more=
for e in $procs; do
p=\${e%%:*} st=\${e##*:} e=\${e#*:}
case $set in *" $p:$st "*) continue ;; esac
pp=\${e%%:*} e=\${e#*:}
pg=\${e%%:*} e=\${e#*:}
if [ "$p" = "$g" ] || [ "$pg" = "$g" ] || [ "\${e%%:*}" = "$g" ]; then :
else
case $set in *" $pp:"*) ;; *) carries "$p" || continue ;; esac
fi
set="$set$p:$st " more=1
done
done
for e in $procs; do
p=\${e%%:*} st=\${e##*:}
case $set in *" $p:$st "*) ;; *) continue ;; esac
if kill -0 "$p" 2>/dev/null; then
live="$live $p"
e=\${e#*:} e=\${e#*:}
[ "\${e%%:*}" = "$g" ] || stray="$stray $p"
elif [ -d "/proc/$p" ]; then
while read -r k u x; do
[ "$k" = Uid: ] && echo "U $u $p:$st" && foreign=1 && break
done 2>/dev/null <"/proc/$p/status"
fi
done
[ -z "$foreign" ] || echo .
}
pause() { sleep "$1" 2>/dev/null || sleep 1; }
scan
if [ "$grace" -gt 0 ] && [ -n "$live" ]; then
kill -TERM "-$g" 2>/dev/null
for p in $stray; do kill -TERM "$p" 2>/dev/null; done
clock
end=$((now + grace))
while scan; [ -n "$live" ]; do
clock
[ "$now" -ge "$end" ] && break
pause 0.05
done
fi
clock
end=$((now + 300))
while [ -n "$live" ]; do
kill -KILL "-$g" 2>/dev/null
for p in $live; do kill -KILL "$p" 2>/dev/null; done
scan
clock
[ "$now" -ge "$end" ] && break
[ -z "$live" ] || pause 0.02
done
trap - EXIT
echo "left:$live"`;

/** Arguments: signal name without SIG, pid of a command. Signals its process group. */
export const SIGNAL_GROUP = `kill "-$1" "-$2"`;

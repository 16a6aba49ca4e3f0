# Runs a command as setsid -fw starts this: in a session of its own, which gets our niceness. Ends it with setsid, which
# the signals of a terminal end.
#
# Linux divides the processor among sessions before it divides a session's part among its processes (autogroup).
# Containers whose clients shared a session with compilers or searches stood still for 1 to 16 seconds at a time (Linux
# 6.18); with clients in a session of their own, they never did. So nice alone orders only the processes of one session.
setsid=$PPID
(while kill -0 "$setsid"; do sleep 1; done; kill -TERM 0) >/dev/null 2>&1 &
for try in 1 2 3 4 5 6 7 8; do # the kernel may take one session's niceness per 100 ms
	{ nice >/proc/self/autogroup; } 2>/dev/null && break
	sleep 0.1
done
exec "$@"

// Package run is the command that runs a job while it holds a lock, for crontabs, units and scripts. The job
// leads a process group of its own. Renewal keeps the lock as long as the job runs; if the lock is about to be
// lost, the whole group gets SIGTERM and then, at the deadline, SIGKILL. A job never outlives its lock, unless
// this process is killed on a system that has no death signal.
package run

const help = `Example, for a crontab on every machine:
  quorumlock run -n -E 0 -existing -min-hold 1m -urls-file /etc/quorumlock/urls nightly-report -- /usr/local/bin/report

Exit codes: the command's own, or 128 plus the number of the signal that ended it, or
  64   the command line is invalid
  69   too few masters answered, they are in quarantine, or -w was over before one of several got the lock
  75   another holds the lock, or has the owner file in use (-E sets another code)
  77   the masters refuse the credentials
  78   the URLs, the masters or the owner file cannot be used
  124  the lock was lost, or -max-hold was over, before the command was done: it was ended, was not started, or its last part
       ran without the lock
  126  the command cannot be executed
  127  the command is not found`

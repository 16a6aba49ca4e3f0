#!/bin/sh
# Usage: run.sh [small | RULE]
#
# Searches quorumlock.pml with Spin. With all rules no trace may be found, in all that can happen; without any one of them
# one must be. small leaves out the largest searches. RULE prints the shortest trace without this rule.
set -eu
cd "$(dirname "$0")"
size=${1:-full} cc=${CC:-cc}
for program in spin "$cc"; do
	command -v "$program" >/dev/null || { echo "run.sh: no $program: nothing is searched"; exit 3; }
done

names='WITHOUT CLAIM ATTEMPTS LEASE RESTARTS RENEWALS SERVERS FAILOVERS CLOCK RESOURCE LATE'
rows='
full  0          0  2 3 1 0 3 0 1 0 1
full  0          0  2 3 0 1 3 0 1 0 1
full  0          0  2 2 0 0 4 1 1 0 1
full  0          0  3 3 1 2 3 0 1 1 0
full  0          0  2 3 1 1 4 2 1 0 0
full  0          0  3 2 0 0 4 2 0 0 0
small 0          0  2 2 1 0 4 2 1 0 0
small 0          0  2 2 0 0 3 0 0 0 1
small 0          0  2 3 1 1 3 0 1 1 0
small DRIFT      1  2 2 0 0 3 0 1 0 1
small SENT       1  2 2 0 0 3 0 1 0 1
small QUARANTINE 1  2 2 1 0 3 0 1 0 1
small NOREPAIR   1  2 3 1 1 3 0 1 0 0
small OWNER      1  2 2 0 0 3 0 1 0 1
small TOMBSTONE  5  2 2 0 0 3 0 1 0 1
small WRITEBACK  3  2 2 0 0 3 0 0 0 1
small SEED       3  2 2 1 0 3 0 1 0 1
small SEAL       1  2 2 0 0 4 1 1 0 0
small SEALID     1  2 2 0 0 4 2 1 0 0
small RUNID      1  2 2 1 0 4 2 1 0 0
small STAMP      11 2 2 0 0 3 0 1 1 1
'

# search WITHOUT ... searches one row, and says what it found: a trace, or none, and whether that is as it should be.
search() {
	without=$1 flags=
	for name in $names; do
		flags="$flags -D$name=$1"
		shift
	done
	case $size$without in full0) how=-O2 ;; *0) how=-O1 ;; *) how="-O0 -DBFS" ;; esac # breadth first: the shortest trace
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	cp quorumlock.pml "$work"
	cd "$work"
	spin -a $flags quorumlock.pml
	"$cc" -w $how -DSAFETY -DNOREDUCE -DMEMLIM=4000 -o pan pan.c
	./pan -n -m1000 -w20 >said
	states=$(sed -n 's/ *\([0-9]*\) states, stored.*/\1/p' said)
	[ ! -f quorumlock.pml.trail ] || spin -t $flags quorumlock.pml >trace || true
	if [ "$without" != 0 ] && grep -q 'assertion violated' said && [ -f trace ]; then
		echo "without $without: a trace of $(sed -n 's/.*trail ends after \([0-9]*\) steps/\1/p' trace) steps, after $states states"
		[ "$size" != "$without" ] || sed '/^spin:/,$d; s/^ *//' trace
	elif [ "$without" = 0 ] && grep -q 'errors: 0' said && ! grep -qE 'not completed|too small' said; then
		echo "all rules: no trace in $states states ($(echo "$flags" | sed 's/ -DWITHOUT=0 -DCLAIM=0//; s/-D//g; s/^ //'))"
	else
		echo "WRONG: $flags"
		grep -vE '^$|^	' said
		[ ! -f trace ] || sed '/^spin:/,$d; s/^ *//' trace
		exit 1
	fi
}

case $size in
row) size=$2; shift 3; search "$@"; exit ;;
full) chosen=$(echo "$rows" | grep .) ;;
small) chosen=$(echo "$rows" | grep '^small') ;;
*) chosen=$(echo "$rows" | grep " $size ") || { echo "run.sh: no rule \"$size\""; exit 2; } ;;
esac
echo "$chosen" | xargs -P 2 -L 1 sh ./run.sh row "$size"

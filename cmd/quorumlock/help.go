package main

// examples are the last part of each command's help: how it is used, and its exit codes.
var examples = map[string]string{
	"run": `Example, for a crontab on every machine:
  quorumlock run -n -E 0 -min-hold 1m -urls-file /etc/quorumlock/urls nightly-report -- /usr/local/bin/report

Exit codes: the command's own, or 128 and the number of the signal that ended it; 75, or that of -E, when another
holds the lock; 69 when too few masters answered or they are in quarantine; 124 when the lock was lost, or -max-hold
came, before the command was done; 126 when the command cannot be executed, 127 when it is not found; 64 for a command
line, 77 for credentials, 78 for URLs and masters that cannot be used.`,
	"status": `Example:
  QUORUMLOCK_URLS="redis://10.0.0.1 redis://10.0.0.2 redis://10.0.0.3" quorumlock status nightly-report

Exit codes: 0 when all locks are held, 1 when one is free, 69 when one is unknown; 64 for a command line, 77 for
credentials, 78 for URLs and masters that cannot be used.`,
	"top": `Example:
  quorumlock top -every 5s -urls-file /etc/quorumlock/urls

Exit codes: 0, or 69 when no master answers, 130 for Ctrl-C; 64 and 78 as status.`,
	"unlock": `Example, once the holder has been ended:
  quorumlock unlock -yes -urls-file /etc/quorumlock/urls nightly-report

Exit codes: 0 when no lock is left, 1 when masters refuse, 69 when too few answered; 64 without -yes; 78 as status.`,
	"demo": `Example:
  quorumlock demo

Exit codes: 0 when all went as it should, 1 when not, 130 for Ctrl-C.`,
	"check": `Example, for monitoring:
  quorumlock check -json redis://10.0.0.1 redis://10.0.0.2 redis://10.0.0.3

Exit codes: 0 when all masters are fit, 1 when one is not; with -wait 0 when a majority grants. 2 for a command line
that cannot be used.`,
	"admit": `Example, for a deployment that is new in whole:
  quorumlock admit -yes redis://10.0.0.1 redis://10.0.0.2 redis://10.0.0.3

Exit codes: 0 when all masters were admitted, 1 when one was not, 2 without -yes and for a command line that cannot be
used.`,
	"members show": `Example:
  quorumlock members show redis://a redis://b redis://c

` + membersCodes,
	"members add": `Example, for a list that is a, b and c:
  quorumlock members add redis://d redis://a redis://b redis://c

` + membersCodes,
	"members remove": `Example, for a list that is a, b, c and d:
  quorumlock members remove d:6379 redis://a redis://b redis://c redis://d

` + membersCodes,
	"members commit": `Example, when all clients have the list a, b, c and d:
  quorumlock members commit redis://a redis://b redis://c redis://d

It refuses while a locker has locked lately with another list, and names it. Lockers that have not are unknown.

` + membersCodes,
	"members abort": `Example, with the masters of both lists:
  quorumlock members abort redis://a redis://b redis://c redis://d

` + membersCodes,
	"version": `Example:
  quorumlock version

Exit codes: 0.`,
}

const membersCodes = `Exit codes: 0 when it is done, 1 when it is not: the message says what to do. 2 for a command line that cannot be
used.`

// didYouMean proposes the word that is nearest to one that does not exist, or nothing.
func didYouMean(word string, words []string) string {
	best, least := "", min(3, (len(word)+1)/2) // below that many letters of difference
	for _, candidate := range words {
		if d := distance(word, candidate); d < least {
			best, least = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// distance returns how many letters must be put in, taken out or replaced to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // for the letters of a so far, and each beginning of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

package main

// examples are the last part of each command's help: an example, and the exit codes.
var examples = map[string]string{
	"run": `Example, for a crontab on every machine:
  quorumlock run -n -E 0 -min-hold 1m -urls-file /etc/quorumlock/urls nightly-report -- /usr/local/bin/report

Exit codes: the command's own, or 128 plus the number of the signal that ended it, or
  64   the command line is invalid
  69   too few masters answered, or they are in quarantine
  75   another holds the lock (-E sets another code)
  77   the masters refuse the credentials
  78   the URLs or the masters cannot be used
  124  the lock was lost, or -max-hold was over, before the command ended
  126  the command cannot be executed
  127  the command is not found`,
	"status": `Example:
  QUORUMLOCK_URLS="redis://10.0.0.1 redis://10.0.0.2 redis://10.0.0.3" quorumlock status nightly-report

Exit codes: 0 if all locks are held, 1 if one is free, 69 if one is unknown. 64 if the command line is invalid, 77 if
the masters refuse the credentials, 78 if the URLs or the masters cannot be used.`,
	"top": `Example:
  quorumlock top -every 5s -urls-file /etc/quorumlock/urls

Exit codes: 0, 69 if no master answers, 130 after Ctrl-C; 64 and 78 as for status.`,
	"unlock": `Example, once the holder has been ended:
  quorumlock unlock -yes -urls-file /etc/quorumlock/urls nightly-report

Exit codes: 0 if no lock is left, 1 if masters refuse, 69 if too few answered; 64 without -yes; 78 as for status.`,
	"demo": `Example:
  quorumlock demo -svg demo.svg

Exit codes: 0 if all went well, 1 if not, 130 after Ctrl-C.`,
	"check": `Example, for monitoring:
  quorumlock check -json redis://10.0.0.1 redis://10.0.0.2 redis://10.0.0.3

Exit codes: 0 if all masters are fit (with -wait: if a majority grants, with -wait-all: if all do), else 1. 2 if the
command line is invalid.`,
	"admit": `Example, for a deployment of new masters only:
  quorumlock admit -yes redis://10.0.0.1 redis://10.0.0.2 redis://10.0.0.3

Exit codes: 0 if all masters were admitted, 1 if one was not, 2 without -yes or if the command line is invalid.`,
	"members show": `Example:
  quorumlock members show redis://a redis://b redis://c

` + membersCodes,
	"members add": `Example, for a list that is a, b and c:
  quorumlock members add redis://d redis://a redis://b redis://c

` + membersCodes,
	"members remove": `Example, for a list that is a, b, c and d:
  quorumlock members remove d:6379 redis://a redis://b redis://c redis://d

` + membersCodes,
	"members commit": `Example, once all clients use the list a, b, c and d:
  quorumlock members commit redis://a redis://b redis://c redis://d

It refuses if a locker with another list has locked lately, and names it. It does not know of lockers that have not.

` + membersCodes,
	"members abort": `Example, with the masters of both lists:
  quorumlock members abort redis://a redis://b redis://c redis://d

` + membersCodes,
	"version": `Example:
  quorumlock version

Exit codes: 0.`,
}

const membersCodes = `Exit codes: 0 if it is done, 1 if not (the message says what to do), 2 if the command line is invalid.`

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

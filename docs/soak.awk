# Turns what make soak prints into docs/reports/soak.md: a row for each command; those of other commands stay, from the
# report that old names. Ends with 1 if a command failed. Read by mawk and by gawk.

function say(n, what) { if (n > 0) found = found (found == "" ? "" : "; ") n " " what }

function row() {
	if (command == "") return
	found = ""
	say(searches, "searches with " states " states, the largest with " largest)
	say(bounded, "of them stopped at their bound")
	say(worlds, "worlds"); say(orders, "orders of events, " stopped " of these searches stopped at their bound")
	say(proofs, "searches with all rules found no trace, in " proved " states"); say(traces, "without a rule found one")
	say(scenarios, "scenarios passed"); say(replies, "replies compared"); say(execs, "inputs")
	say(noticed + late, "mutants noticed, " late + 0 " of them by time")
	say(silent, "not noticed"); say(harmless, "need not be"); say(notRun, "not run")
	gsub(/GOGC=[0-9]+ |nice -n 19 |cd integration && | -timeout [0-9]+[hm]| -v | -run '\^\$'|-vet=off /, " ", command)
	gsub(/\|/, "\\|", command)
	gsub(/ +/, " ", command); sub(/^ /, "", command)
	new[++rows] = sprintf("| `%s` | %s%s | %s | %s | %s |", command, failed ? "**failed** " : "", found == "" ? "passed" : found,
		seconds ? int(seconds / 60 + 0.5) " min" : "-", revision, date)
	command = ""; anyFailed += failed
	searches = states = largest = bounded = worlds = orders = stopped = proofs = proved = traces = scenarios = replies = execs = 0
	noticed = late = silent = harmless = notRun = seconds = failed = 0
}

# keep keeps the row of a command in the place of its last one.
function keep(line) {
	split(line, cells, / \| /)
	if (!(cells[1] in all)) order[++last] = cells[1]
	all[cells[1]] = line
}

/^(cd integration && )?(GOGC=[0-9]+ )?(nice -n 19 )?(go (test|run) |sh spec)/ { row(); command = $0; next }
/_test.go:[0-9]+: [0-9]+ states, / { searches++; states += $2; if ($2 > largest) largest = $2; if (/: bounded( |$)/) bounded++ }
/_test.go:[0-9]+: [0-9]+ worlds$/ { worlds += $2 }
/_test.go:[0-9]+: [0-9]+ orders of / { orders += $2; if (/stopped$/) stopped++ }
/^all rules: no trace in / { proofs++; proved += $6 }
/^without .*: a trace / { traces++ }
/^ +--- PASS: TestChaos\/.*\/[0-9]+ / { scenarios++ } # of each number of masters
/_test.go:[0-9]+: replies: map/ { n = split($0, counts, /[a-z]:/); for (i = 2; i <= n; i++) replies += counts[i] }
/^fuzz: elapsed: / { execs = $5 }
/^\| [^ ]+\.(go|lua) \|/ { noticed += $4; late += $6; silent += $8; harmless += $10; notRun += $12 }
/^ok[ \t]/ { seconds += $3 }
/^(--- FAIL|FAIL|panic:|make.*\*\*\*)/ { failed = 1 }

END {
	row()
	while (old != "" && (getline line <old) > 0) if (line ~ /^\| `/) keep(line) # another part may have written it meanwhile
	for (i = 1; i <= rows; i++) keep(new[i])
	print "# Soak\n\nWritten by `make soak`; every figure is from the run of its row. The last one:\n"
	print "- " date " UTC; quorumlock " revision "; " machine "\n"
	print "| command | found | took | commit | UTC |\n|---|---|---|---|---|"
	for (i = 1; i <= last; i++) print all[order[i]]
	exit anyFailed > 0
}

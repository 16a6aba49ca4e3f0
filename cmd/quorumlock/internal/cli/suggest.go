package cli

// didYouMean proposes the known word nearest to a wrong one, or nothing.
func didYouMean(word string, words []string) string {
	best, least := "", min(3, (len(word)+1)/2) // fewer letters of difference than this
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

// distance returns how many letters must be inserted, deleted or replaced to turn a into b.
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

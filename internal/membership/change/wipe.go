package change

import (
	"regexp"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/scripts"
)

// Wipe returns the command that wipes each of these members, without repetitions, and says in which database if it is
// not 0.
func Wipe(members ...string) string {
	var all []string
	for _, member := range members {
		wipe := "DEL " + scripts.MarkerKeyOf(member)
		if named := database.FindStringSubmatch(member); named != nil {
			wipe += " in database " + named[1]
		}
		if !slices.Contains(all, wipe) {
			all = append(all, wipe)
		}
	}
	return strings.Join(all, ", ")
}

// database matches the number of a database in a member's name, as [scripts.MemberName] writes it.
var database = regexp.MustCompile(`/([0-9]+)(?:$|\?prefix=)`)

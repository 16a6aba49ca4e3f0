package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// CheckCrowd returns a violation of the rule "crowd" for each hold that began while at least most others
// went on, of any name: a semaphore's slots are names. A hold lasts as for the rule "overlap" of
// [Check], and clocks must be honest.
func CheckCrowd(events []Event, most int) (all []Violation) {
	holds, open := Holds(events), []Held(nil)
	slices.SortFunc(holds, func(a, b Held) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	for _, of := range holds {
		open = slices.DeleteFunc(open, func(other Held) bool { return other.To <= of.From })
		if len(open) >= most && of.To > of.From {
			all = append(all, Violation{Rule: "crowd", At: of.From, Detail: fmt.Sprintf("%d holders beside %q of %s, after %v, where %d may hold",
				len(open), of.Name, of.Owner, time.Duration(of.From-holds[0].From), most)})
		}
		open = append(open, of)
	}
	return all
}

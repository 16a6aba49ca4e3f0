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
	holds, open := begun(gather(events, 0)...), []*hold(nil)
	slices.SortFunc(holds, func(a, b *hold) int {
		return cmp.Or(cmp.Compare(a.Return, b.Return), cmp.Compare(a.end, b.end))
	})
	for _, of := range holds {
		open = slices.DeleteFunc(open, func(other *hold) bool { return other.end <= of.Return })
		if len(open) >= most && of.end > of.Return {
			all = append(all, Violation{Rule: "crowd", At: of.Return, Detail: fmt.Sprintf("%d holders beside %q of %s, after %v, where %d may hold",
				len(open), of.Name, of.Owner, time.Duration(of.Return-holds[0].Return), most)})
		}
		open = append(open, of)
	}
	return all
}

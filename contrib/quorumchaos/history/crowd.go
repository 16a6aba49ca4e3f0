package history

import (
	"fmt"
	"time"
)

// CheckCrowd returns a violation of the rule "crowd" for each hold that began while at least most others
// went on, of any name: a semaphore's slots are names. A hold lasts as for the rule "overlap" of
// [Check], and clocks must be honest.
func CheckCrowd(events []Event, most int) (all []Violation) {
	first := never
	for _, of := range Holds(events) {
		first = min(first, of.From)
	}
	for _, crowd := range Crowds(events, most) {
		of := crowd.Holds[0]
		all = append(all, Violation{Rule: "crowd", At: of.From, Detail: fmt.Sprintf("%d holders beside %q of %s, after %v, where %d may hold",
			len(crowd.Holds)-1, of.Name, of.Owner, time.Duration(of.From-first), most)})
	}
	return all
}

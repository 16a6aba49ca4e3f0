package members

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/scripts"
)

func (d deployment) show(ctx context.Context, out io.Writer) error {
	views, errs := d.look(ctx)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MASTER\tGENERATION\tMEMBERS\tNEXT\tQUARANTINE\tNEXT CHANGE")
	for _, name := range d.names {
		fmt.Fprintf(table, "%s\t%s\n", name, row(views[name]))
	}
	table.Flush()
	for _, name := range d.names {
		if v := views[name]; v != nil && v.Marker().Replicas() > 0 {
			fmt.Fprintf(out, "%s: replicas that acknowledge each lock: %d\n", name, v.Marker().Replicas())
		}
	}
	fmt.Fprintln(out)
	if announced := d.summarize(views, out); announced != nil {
		d.showLockers(ctx, announced, out)
	}
	if len(errs) > 0 {
		return explain(errors.New("not all masters answered"), errs)
	}
	listed := map[string]bool{} // members of any list
	for _, name := range d.names {
		v := views[name]
		if change.IsRetired(v) {
			return fmt.Errorf("%s is retired: it is no member of %s, and accepts nobody. Leave out its URL, or take it back "+
				"with members add", name, v.Marker().Members)
		}
		if !v.IsBlank() {
			for _, member := range slices.Concat(v.Marker().Members.Names(), v.Marker().Next.Names()) {
				listed[member] = true
			}
		}
	}
	for _, member := range slices.Sorted(maps.Keys(listed)) {
		for _, name := range d.names {
			if d.nodes[member] == nil && !listed[name] && views[name].IsBlank() { // without that it may be a spare
				return fmt.Errorf("%s is a member of none of these lists, and the member %s is not given: correct the URLs", name, plain.Text(member))
			}
		}
	}
	return nil
}

func row(v *membership.View) string {
	if v == nil {
		return "-\tnot known\t-\t-\t-" // the error says why
	}
	marker := v.Marker()
	switch {
	case v.IsBlank() && marker.Members.Len() > 0: // it has restarted with its data
		return fmt.Sprintf("-\tblank: had %s\t%s\t-\t-", marker.Members, next(marker.Next))
	case v.IsBlank():
		return "-\tblank\t-\t-\t-"
	case change.IsRetired(v):
		return fmt.Sprintf("%d\tretired: %s\tnone\t-\t-", marker.Generation, marker.Members)
	}
	members, change := marker.Members.String(), until(change.Waits(v))
	if marker.Claimed {
		return fmt.Sprintf("-\tbeing marked for %s\t%s\t%s\t-", members, next(marker.Next), masters.Left(v.Quarantine()))
	}
	if marker.Next.Len() > 0 {
		change = "after this one"
	}
	return fmt.Sprintf("%d\t%s\t%s\t%s\t%s", marker.Generation, members, next(marker.Next), masters.Left(v.Quarantine()), change)
}

// summarize prints what the masters' lists mean together. It returns the new list of a change that is under way; nil
// for none.
func (d deployment) summarize(views map[string]*membership.View, out io.Writer) (announced *scripts.List) {
	lists, begun, misnamed := map[string]*scripts.List{}, map[string]*scripts.List{}, false
	for _, name := range d.names {
		v := views[name]
		if v == nil || v.IsBlank() {
			continue
		}
		marker := v.Marker()
		if marker.Claimed {
			if !marker.Members.Has(marker.Member) {
				begun[name] = marker.Members
			}
			continue
		}
		if !change.IsRetired(v) {
			lists[fmt.Sprint(marker.Generation, marker.Members, marker.Next)] = marker.Members
		}
		if marker.Next.Len() > 0 {
			announced = marker.Next
		}
		if marker.Member != name {
			misnamed = true
			fmt.Fprintf(out, "%s says that it is the member %s: give it that name (?name=... in the URL).\n",
				name, plain.Text(marker.Member))
		}
	}
	switch {
	case misnamed:
	case announced != nil:
		next := "members commit with the URLs of that list, when all clients have it; or members abort with the URLs of both lists"
		if _, isCommitted := change.Progress(announced, views); isCommitted {
			next = "members commit with the URLs of that list, as a master has committed it"
		}
		fmt.Fprintf(out, "A change to %s is under way. Next: %s.\n", announced, next)
	case len(begun) > 0 && len(lists) <= 1:
		for _, name := range slices.Sorted(maps.Keys(begun)) {
			goesOn := "the same members add goes on"
			for _, present := range lists {
				if !present.Equal(begun[name]) {
					goesOn = fmt.Sprintf("the members are %s now, and members add takes %s with the URLs of that list", present, name)
				}
			}
			fmt.Fprintf(out, "A change that adds %s to %s was begun and is not announced: %s. "+
				"Clients notice nothing of it until then.\n", name, begun[name], goesOn)
		}
	case len(lists) > 1 && change.Finish(views) != "":
		fmt.Fprintf(out, "The masters do not all have the same list: %s.\n", plain.Text(change.Finish(views)))
	case len(lists) > 1:
		fmt.Fprintln(out, "The masters do not all have the same list. "+
			"If a commit was interrupted, members commit with the URLs of the new list finishes it. "+
			"members abort with all URLs says what else to do. "+
			"A master that was removed while it did not answer keeps its last list.")
	case len(lists) == 0:
		fmt.Fprintln(out, "No master that answers has a list.")
	case len(views) == len(d.names):
		fmt.Fprintln(out, "No change is under way.")
	default:
		fmt.Fprintln(out, "No change is under way on the masters that answered.")
	}
	return announced
}

func next(list *scripts.List) string {
	if list.Len() == 0 {
		return "none"
	}
	return list.String()
}

func until(left time.Duration) string {
	if left <= 0 {
		return "now"
	}
	return fmt.Sprintf("in %.1fs", left.Seconds())
}

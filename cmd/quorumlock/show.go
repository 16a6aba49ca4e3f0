package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/scripts"
)

// show prints the list that each master has, and where a change stands.
func (m masters) show(ctx context.Context, out io.Writer) error {
	views, errs := m.look(ctx)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MASTER\tGENERATION\tMEMBERS\tNEXT\tQUARANTINE\tNEXT CHANGE")
	for _, name := range m.names {
		fmt.Fprintf(table, "%s\t%s\n", name, row(views[name]))
	}
	table.Flush()
	fmt.Fprintln(out)
	m.summarize(views, out)
	if len(errs) > 0 {
		return explain(errors.New("not all masters answered"), errs)
	}
	return nil
}

// row returns the cells of a master behind its name.
func row(v *membership.View) string {
	if v == nil {
		return "-\tdoes not answer\t\t\t"
	}
	marker := v.Marker()
	switch {
	case v.IsBlank():
		return "-\tblank\t\t\t"
	case marker.Claimed:
		return fmt.Sprintf("%d\tbeing marked for %s\t%s\t\t", marker.Generation, marker.Members, next(marker.Next))
	}
	quarantine, _ := v.Quarantine()
	return fmt.Sprintf("%d\t%s\t%s\t%s\t%s", marker.Generation, marker.Members, next(marker.Next),
		left(quarantine), until(marker.Change-v.Now))
}

// summarize prints what the masters' lists mean together.
func (m masters) summarize(views map[string]*membership.View, out io.Writer) {
	lists, announced, misnamed := map[string]bool{}, "", false
	for _, name := range m.names {
		v := views[name]
		if v == nil || v.IsBlank() || v.Marker().Claimed {
			continue
		}
		marker := v.Marker()
		lists[fmt.Sprint(marker.Generation, marker.Members, marker.Next)] = true
		if marker.Next.Len() > 0 {
			announced = marker.Next.String()
		}
		if marker.Member != name {
			misnamed = true
			fmt.Fprintf(out, "%s is the member %s by its own word: give it that name (?name=... in the URL).\n",
				name, marker.Member)
		}
	}
	switch {
	case misnamed:
	case announced != "":
		fmt.Fprintf(out, "A change to %s is under way. Next: members commit with that list, when all clients have it; "+
			"or members abort.\n", announced)
	case len(lists) > 1:
		fmt.Fprintln(out, "The masters do not all have the same list. "+
			"Where a commit was interrupted, members commit finishes it; "+
			"a master that was removed keeps its last list.")
	case len(lists) == 0:
		fmt.Fprintln(out, "No master that answers has a list.")
	case len(views) == len(m.names):
		fmt.Fprintln(out, "No change is under way.")
	default:
		fmt.Fprintln(out, "No change is under way on the masters that answered.")
	}
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

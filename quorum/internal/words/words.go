// Package words has the parts of texts for people, of errors, locks and states.
package words

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/node"
)

// Left says how long a lock is held; −1: it never expires.
func Left(left time.Duration) string {
	switch {
	case left < 0:
		return "never expires"
	case left >= time.Second:
		left = left.Round(100 * time.Millisecond)
	}
	return fmt.Sprintf("%v left", left)
}

// Slots formats slot numbers, to follow the semaphore's name; empty for none.
func Slots(slots []int) string {
	if slots == nil {
		return ""
	}
	word := " slot"
	if len(slots) > 1 {
		word += "s"
	}
	for i, slot := range slots {
		if i > 0 {
			word += ","
		}
		word += fmt.Sprintf(" %d", slot)
	}
	return word
}

// Reading returns the suffix of a reader's lock.
func Reading(reads bool) string {
	if reads {
		return " for reading"
	}
	return ""
}

// Quoted lists up to eight names, each up to 64 characters.
func Quoted(names []string) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteByte(' ')
		}
		if i == 8 {
			fmt.Fprintf(&b, "and %d more", len(names)-i)
			break
		}
		fmt.Fprintf(&b, "%.64q", name)
	}
	return b.String()
}

// Grouped joins the errors of nodes, and says what several nodes have in common once: "nodes a, b:
// acquire: ...; node c: ...".
func Grouped(errs []error) string {
	var groups plain.Grouped
	for _, err := range errs {
		reason, name := err.Error(), ""
		if failed, ok := errors.AsType[*node.Error](err); ok {
			reason, name = strings.TrimPrefix(reason, fmt.Sprintf("node %s: ", failed.Node)), failed.Node
		}
		groups.Add(name, reason)
	}
	texts := make([]string, len(groups))
	for i, g := range groups {
		switch len(g.Nodes) {
		case 0:
			texts[i] = g.Reason
		case 1:
			texts[i] = fmt.Sprintf("node %s: %s", g, g.Reason)
		default:
			texts[i] = fmt.Sprintf("nodes %s: %s", g, g.Reason)
		}
	}
	return strings.Join(texts, "; ")
}

package operators

import (
	"math"
	"strings"

	"github.com/quorumlock/quorumlock/scripts"
)

const (
	surveyKeys     = 1000 // that SCAN looks at in one call
	surveyChannels = 200
)

// SurveyReply is the reply to Survey.
type SurveyReply struct {
	Cursor  string         // of the next call; "0" after the last key
	Names   []string       // of the locks among the keys that this call has looked at
	Waiting map[string]int // how many connections subscribe to a name's channel; the most subscribed names only
}

// Survey finds names of locks: those that are waited for, and those among the next 1000 keys from
// the cursor on, "0" for the first.
func Survey(cursor string) scripts.Call {
	return surveyScript.Call(0, scripts.ChannelPrefix+"*", cursor, surveyKeys, surveyChannels)
}

func parseSurvey(v any, _ int) (any, bool) {
	f := scripts.FieldsOf(v)
	reply := &SurveyReply{Cursor: f.Text(), Waiting: map[string]int{}}
	names, channels, areOurs := scripts.FieldsOf(f.Next()), scripts.FieldsOf(f.Next()), true
	for names.More() {
		reply.Names = append(reply.Names, names.Text())
	}
	for channels.More() {
		channel, count := channels.Text(), channels.Number(math.MinInt64, math.MaxInt64)
		_, name, isOurs := strings.Cut(channel, scripts.ChannelPrefix)
		areOurs = areOurs && isOurs
		reply.Waiting[nameOf(name)] = max(count, 0)
	}
	return reply, f.End() && names.End() && channels.End() && areOurs
}

// nameOf returns the name of the lock whose channel ends so. The names x and {x} share one.
func nameOf(name string) string {
	if inner, ok := strings.CutPrefix(name, "{"); ok {
		if inner, ok = strings.CutSuffix(inner, "}"); ok && !strings.Contains(inner, "{") {
			return inner
		}
	}
	return name
}

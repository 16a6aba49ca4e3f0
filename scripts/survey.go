package scripts

import "strings"

const (
	surveyKeys     = 1000 // that SCAN looks at in one call
	surveyChannels = 200
)

// SurveyReply is the reply to Survey.
type SurveyReply struct {
	Cursor  string         // of the next call; "0" after the last key
	Names   []string       // of locks, of the keys that this call has looked at
	Waiting map[string]int // how many connections subscribe to a name's channel; the most subscribed names only
}

// Survey finds names of locks: those that are waited for, and those among the next 1000 keys from
// the cursor on, "0" for the first. It is for operators: [All] leaves it out.
func Survey(cursor string) Call {
	return Call{script: surveyScript, args: []any{surveyScript.sha, 0, channelPrefix + "*", cursor, surveyKeys,
		surveyChannels}}
}

// ParseSurvey reads the reply to Survey; errors wrap ErrReply.
func ParseSurvey(v any) (SurveyReply, error) {
	fields, ok := v.([]any)
	if !ok || len(fields) != 3 {
		return SurveyReply{}, malformed(surveyScript, v)
	}
	cursor, ok1 := text(fields[0])
	names, ok2 := fields[1].([]any)
	channels, ok3 := fields[2].([]any)
	reply := SurveyReply{Cursor: cursor, Waiting: map[string]int{}}
	if !(ok1 && ok2 && ok3) || len(channels)%2 != 0 {
		return SurveyReply{}, malformed(surveyScript, v)
	}
	for _, key := range names {
		name, ok := text(key)
		if !ok {
			return SurveyReply{}, malformed(surveyScript, v)
		}
		reply.Names = append(reply.Names, name)
	}
	for i := 0; i < len(channels); i += 2 {
		channel, ok := text(channels[i])
		count, ok1 := channels[i+1].(int64)
		if !ok || !ok1 || !strings.HasPrefix(channel, channelPrefix) {
			return SurveyReply{}, malformed(surveyScript, v)
		}
		reply.Waiting[nameOf(channel)] = int(max(count, 0))
	}
	return reply, nil
}

// nameOf returns the name that a channel is of. The names x and {x} share one.
func nameOf(channel string) string {
	name := strings.TrimPrefix(channel, channelPrefix)
	if inner, ok := strings.CutPrefix(name, "{"); ok {
		if inner, ok = strings.CutSuffix(inner, "}"); ok && !strings.Contains(inner, "{") {
			return inner
		}
	}
	return name
}

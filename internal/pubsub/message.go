package pubsub

var answerTo = map[string]string{"SUBSCRIBE": "subscribe", "UNSUBSCRIBE": "unsubscribe", "PING": "pong"}

// kindError is the kind of an error reply, for example when the user may not subscribe to the
// channel. The connection still carries the other subscriptions.
const kindError = "error"

// parse reads a reply or a message. A pong is an array while there are subscriptions, and a status
// otherwise. What is neither is of no kind that a command wants.
func parse(reply any) (kind, channel string) {
	if _, isStatus := reply.(string); isStatus {
		return "pong", ""
	}
	var words [2][]byte
	fields, _ := reply.([]any)
	for i, field := range fields[:min(len(fields), len(words))] {
		words[i], _ = field.([]byte)
	}
	return string(words[0]), string(words[1])
}

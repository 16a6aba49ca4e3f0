package pubsub

import (
	"errors"
	"fmt"
)

var answerTo = map[string]string{"SUBSCRIBE": "subscribe", "UNSUBSCRIBE": "unsubscribe", "PING": "pong"}

// kindError is the kind of an error reply, for example when the user may not subscribe to the
// channel. The connection still carries the other subscriptions.
const kindError = "error"

var errMessage = errors.New("not a reply to a subscriber")

// parse reads a reply or a message. A pong is an array while there are subscriptions, and a status
// otherwise. Only a message has a text.
func parse(reply any) (kind, channel, text string, err error) {
	if status, ok := reply.(string); ok && status == "PONG" {
		return "pong", "", "", nil
	}
	fields, ok := reply.([]any)
	if !ok || len(fields) < 2 || len(fields) > 3 {
		return "", "", "", fmt.Errorf("%w: %.40q", errMessage, fmt.Sprint(reply))
	}
	word, ok1 := fields[0].([]byte)
	name, ok2 := fields[1].([]byte)
	kind = string(word)
	switch {
	case !ok1, !ok2 && fields[1] != nil:
	case kind == "message" && len(fields) == 3:
		said, _ := fields[2].([]byte)
		return kind, string(name), string(said), nil
	case kind == "pong", kind == "subscribe", kind == "unsubscribe":
		return kind, string(name), "", nil
	}
	return "", "", "", fmt.Errorf("%w: %.40q", errMessage, fmt.Sprint(reply))
}

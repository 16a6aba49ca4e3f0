package node_test

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// strictReplies reads RESP until it is cut off or malformed.
func strictReplies(sent []byte) (replies []any) {
	for {
		value, rest, ok := strictReply(sent)
		if !ok {
			return replies
		}
		replies, sent = append(replies, value), rest
	}
}

// strictReply reads one reply by the letter of RESP 2, as a value of redigo.
func strictReply(sent []byte) (value any, rest []byte, ok bool) {
	line, rest, ok := bytes.Cut(sent, []byte("\n"))
	if !ok || len(line) < 2 || line[len(line)-1] != '\r' {
		return nil, nil, false
	}
	kind, text := line[0], string(line[1:len(line)-1])
	if kind == '+' {
		return text, rest, true
	}
	if kind == '-' {
		return redis.Error(text), rest, true
	}
	number, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil || strings.HasPrefix(text, "+") || len(text) > len("-9223372036854775808"):
		return nil, nil, false
	case kind == ':':
		return number, rest, true
	case text == "-1" && (kind == '$' || kind == '*'):
		return nil, rest, true
	case strings.HasPrefix(text, "-"):
		return nil, nil, false
	case kind == '$':
		if number > int64(len(rest))-2 || rest[number] != '\r' || rest[number+1] != '\n' {
			return nil, nil, false
		}
		return append([]byte{}, rest[:number]...), rest[number+2:], true
	case kind == '*':
		list := []any{}
		for range number {
			var v any
			if v, rest, ok = strictReply(rest); !ok {
				return nil, nil, false
			}
			list = append(list, v)
		}
		return list, rest, true
	}
	return nil, nil, false
}

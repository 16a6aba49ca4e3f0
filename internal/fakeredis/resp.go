package fakeredis

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

var errProtocol = errors.New("fakeredis: not a command in RESP")

const (
	maxArgs = 1 << 20
	maxBulk = 1 << 29
)

// ReadCommand reads one command, an array of bulk strings.
func ReadCommand(in *bufio.Reader) ([]string, error) {
	count, err := readLength(in, '*', maxArgs)
	if err != nil {
		return nil, err
	}
	if count == 0 {
		return nil, errProtocol
	}
	command := make([]string, count)
	for i := range command {
		size, err := readLength(in, '$', maxBulk)
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		command[i] = string(text[:size])
	}
	return command, nil
}

func readLength(in *bufio.Reader, kind byte, most int) (int, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 4 || line[0] != kind {
		return 0, errProtocol
	}
	n, err := strconv.Atoi(string(line[1 : len(line)-2]))
	if err != nil || n < 0 || n > most {
		return 0, errProtocol
	}
	return n, nil
}

// status is a simple string.
type status string

const ok status = "OK"

// appendReply writes a reply: nil, status, string, int64, []string, []any of these, or an error.
func appendReply(to []byte, reply any) []byte {
	switch r := reply.(type) {
	case nil:
		return append(to, "$-1\r\n"...)
	case status:
		return append(append(append(to, '+'), r...), "\r\n"...)
	case error:
		return append(append(append(to, '-'), strings.ReplaceAll(r.Error(), "\n", " ")...), "\r\n"...)
	case int64:
		return append(strconv.AppendInt(append(to, ':'), r, 10), "\r\n"...)
	case string:
		return append(append(appendHeader(to, '$', len(r)), r...), "\r\n"...)
	case []string:
		to = appendHeader(to, '*', len(r))
		for _, text := range r {
			to = appendReply(to, text)
		}
		return to
	case []any:
		to = appendHeader(to, '*', len(r))
		for _, part := range r {
			to = appendReply(to, part)
		}
		return to
	default:
		return appendReply(to, replyError(fmt.Sprintf("ERR the fake has no reply for a %T", reply)))
	}
}

func appendHeader(to []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(to, kind), int64(n), 10), "\r\n"...)
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

func name(command []string) string { return strings.ToUpper(command[0]) }

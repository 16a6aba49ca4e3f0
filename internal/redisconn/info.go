package redisconn

import (
	"iter"
	"net"
	"strconv"
	"strings"
)

// Info has the fields of a reply to INFO or CLIENT INFO.
type Info map[string]string

// ReadInfo reads a reply to INFO.
func ReadInfo(reply any) Info { return readFields(reply, strings.Lines, ":") }

// ReadClientInfo reads a reply to CLIENT INFO.
func ReadClientInfo(reply any) Info { return readFields(reply, strings.FieldsSeq, "=") }

func readFields(reply any, split func(string) iter.Seq[string], separator string) Info {
	text, _ := reply.([]byte)
	info := Info{}
	for field := range split(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(field), separator)
		info[key] = value
	}
	return info
}

// Number returns a field as a number; 0 if it isn't one.
func (i Info) Number(key string) uint64 {
	number, _ := strconv.ParseUint(i[key], 10, 63)
	return number
}

// Evicts reports whether the server may evict keys.
func (i Info) Evicts() bool {
	policy := i["maxmemory_policy"]
	return i.Number("maxmemory") > 0 && policy != "" && policy != "noeviction"
}

// TwoReplicasAt returns an address that two replicas have; empty for none.
func (i Info) TwoReplicasAt() string {
	seen := map[string]bool{}
	for _, value := range i { // as slave0:ip=10.0.0.1,port=6379,state=online,...
		host, after, isReplica := strings.Cut(strings.TrimPrefix(value, "ip="), ",port=")
		if !isReplica {
			continue
		}
		port, _, _ := strings.Cut(after, ",")
		at := net.JoinHostPort(host, port)
		if seen[at] {
			return at
		}
		seen[at] = true
	}
	return ""
}

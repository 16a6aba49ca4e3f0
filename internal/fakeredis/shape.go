package fakeredis

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	ownersForm = regexp.MustCompile(`(?s).:[0-9]+$`)
	levelsForm = regexp.MustCompile(`^[1-9][0-9]{0,8}$`)
)

// lockAt is lockAt of shape.lua, without the end of the last reader's lease. With all it looks at each member of a set. What is
// no lock ends the program.
func (k *Keyspace) lockAt(key string, all bool) (owner, level string) {
	v, fields, err := k.find(key), 0, k.try("HLEN")
	if err == nil {
		fields, err = k.hlen(key)
	}
	if err != nil {
		isSet := v != nil && v.kind == aSet
		if refused := k.try("ZREVRANGE"); refused != nil || !isSet {
			if k.may("TYPE") == nil && isSet {
				err = refused
			}
			fail(err)
		}
		k.call("ZRANGE")
		last, _ := v.lastReader()
		if owner, isReader := strings.CutPrefix(last, readerPrefix); isReader && len(owner) <= 1024 && v.isRead(all) {
			return owner, ""
		}
		fail(noLock(key, "sorted set"))
	}
	if fields == 1 {
		k.call("HGETALL")
		for owner, level = range k.find(key).hash {
		}
		if levelsForm.MatchString(level) && len(owner) <= 1024 && ownersForm.MatchString(owner) {
			return owner, level
		}
	}
	fail(noLock(key, "hash"))
	return "", ""
}

func noLock(key, kind string) error {
	return replyError(fmt.Sprintf(`QUORUMLOCK the key "%s" holds a %s that is no lock`,
		shown(key[:min(len(key), 64)]), kind))
}

// shown is a key as an error names it. It need not be UTF-8.
func shown(key string) string {
	text := []byte(key)
	for i, c := range text {
		if c < ' ' || c == 0x7f {
			text[i] = '?'
		}
	}
	return string(text)
}

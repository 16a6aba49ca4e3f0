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

// lockAt is lockAt of shape.lua, but for the end of the last reader's lease.
func (k *Keyspace) lockAt(key string) (owner, level string, err error) {
	if v := k.find(key); v != nil && v.kind == aSet {
		last, _ := v.lastReader()
		if owner, isReader := strings.CutPrefix(last, readerPrefix); isReader && len(owner) <= 1024 {
			return owner, "", nil
		}
		return "", "", noLock(key, "sorted set")
	}
	fields, err := k.hlen(key)
	if err != nil {
		return "", "", err
	}
	if fields == 1 {
		for owner, level = range k.find(key).hash {
		}
		if levelsForm.MatchString(level) && len(owner) <= 1024 && ownersForm.MatchString(owner) {
			return owner, level, nil
		}
	}
	return "", "", noLock(key, "hash")
}

func noLock(key, kind string) error {
	return replyError(fmt.Sprintf(`QUORUMLOCK the key "%s" holds a %s that is no lock`,
		shown(key[:min(len(key), 64)]), kind))
}

// shown is a key as an error names it.
func shown(key string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, key)
}

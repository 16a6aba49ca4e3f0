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

// lockAt is lockAt of shape.lua.
func (k *Keyspace) lockAt(key string) (owner, level string, err error) {
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
	return "", "", replyError(fmt.Sprintf(`QUORUMLOCK the key "%s" holds a hash that is no lock`,
		shown(key[:min(len(key), 64)])))
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

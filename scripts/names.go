package scripts

import "strings"

// Name is what is locked, with the keys and the channel that follow from it, ready to be sent.
type Name struct {
	text                  string
	key, counter, channel any
}

// NewName returns the keys of a lock's name. The name is taken byte for byte.
func NewName(name string) Name {
	return Name{text: name, key: name, counter: tokenPrefix + name, channel: Channel(name)}
}

// String returns the name itself.
func (n Name) String() string { return n.text }

// Channel returns the channel on which a release of the lock is published, as Redisson names it: braces are added around
// a name that has no "{".
func Channel(name string) string {
	if strings.Contains(name, "{") {
		return channelPrefix + name
	}
	return channelPrefix + "{" + name + "}"
}

// Owner is who holds or asks: "<locker uuid>:<number>", with the key of its tombstone.
type Owner struct {
	text       string
	id, buried any
}

// NewOwner returns the owner with that id.
func NewOwner(id string) Owner {
	buried := tombPrefix + id
	text := buried[len(tombPrefix):]
	return Owner{text: text, id: text, buried: buried}
}

// String returns the owner's id.
func (o Owner) String() string { return o.text }

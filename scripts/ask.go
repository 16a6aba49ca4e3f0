package scripts

import (
	"strconv"
	"strings"
)

// Waiters of a name ask its holder to let go on the channel of quorumlock:request:NAME, which is no key.
// A user that may hear of releases may use it.
const askPrefix = Prefix + "request:"

// everybody precedes the id of who asks, in a message to all that hold. No owner's id begins with it.
const everybody = "*"

// AskChannel returns the channel on which the holder of a name is asked to let go. The slots of a
// semaphore have one.
func AskChannel(name string) string { return Channel(askPrefix + channelName(name)) }

// Ask asks the owner with that id, if it listens at one of the names, to let go.
func Ask(names []string, owner string) Call {
	args := append(make([]any, 0, 3+len(names)), askScript.sha, 0, owner)
	for _, name := range names {
		args = append(args, AskChannel(name))
	}
	return Call{script: askScript, args: args}
}

// AskAll asks all owners that listen at one of the names, but no later owner of the asking one's locker.
func AskAll(names []string, asking Owner) Call { return Ask(names, everybody+asking.String()) }

// IsAsked reports whether a message asks this owner to let go.
func (o Owner) IsAsked(message string) bool {
	asking, all := strings.CutPrefix(message, everybody)
	if !all {
		return message == o.String()
	}
	locker, number, _ := cutOwner(asking)
	ownLocker, ownNumber, ok := cutOwner(o.String())
	return !ok || locker != ownLocker || ownNumber <= number
}

// cutOwner returns the locker in an owner's id, and the owner's number.
func cutOwner(id string) (locker string, number uint64, ok bool) {
	end := strings.LastIndexByte(id, ':')
	if end < 0 {
		return "", 0, false
	}
	number, err := strconv.ParseUint(id[end+1:], 10, 64)
	return id[:end], number, err == nil
}

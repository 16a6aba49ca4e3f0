package fakeredis

import (
	"errors"
	"slices"
)

// Refusals say which commands of scripts a server refuses. The zero value refuses none.
type Refusals struct {
	Full      bool   // out of memory: nothing that may need more, unless the script has written
	ReadOnly  bool   // too few replicas are attached: no write
	Forbidden string // the command that the user may not run, in upper case
	Key       string // that the user may not touch
}

// The kinds of a command, as Redis flags it.
const (
	writes = 1 << iota
	needsMemory
)

var kinds = map[string]int{
	"SET": writes | needsMemory, "MSET": writes | needsMemory, "HSET": writes | needsMemory, "ZADD": writes | needsMemory,
	"DEL": writes, "HDEL": writes, "PEXPIRE": writes, "PEXPIREAT": writes, "PERSIST": writes, "ZREM": writes, "ZREMRANGEBYSCORE": writes,
}

// Refuse changes what the server refuses from now on.
func (k *Keyspace) Refuse(r Refusals) {
	k.refusals = nil
	if r != (Refusals{}) {
		k.refusals = &r
	}
}

// Refuse changes what the server refuses to scripts from now on.
func (m *Master) Refuse(r Refusals) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refusals = r
}

// may is the server's check before a script runs a command. It returns the refusal.
func (k *Keyspace) may(command string) error {
	if k.refusals == nil {
		return nil
	}
	kind := kinds[command]
	switch {
	case k.refusals.Forbidden == command:
		return errForbidden
	case kind == 0 || k.wrote:
	case k.refusals.ReadOnly:
		return errReadOnly
	case k.refusals.Full && kind&needsMemory != 0:
		return errFull
	}
	k.wrote = k.wrote || kind != 0
	return nil
}

// call is may for redis.call of Lua: a refusal ends the program. What it has written stays.
func (k *Keyspace) call(command string) {
	fail(k.may(command))
}

// callSet is SET, for redis.call.
func (k *Keyspace) callSet(key, text string, ttl int64) {
	k.call("SET")
	k.set(key, text, ttl)
}

// maySet is SET, for redis.pcall.
func (k *Keyspace) maySet(key, text string, ttl int64) bool {
	if k.may("SET") != nil {
		return false
	}
	k.set(key, text, ttl)
	return true
}

// callDel is DEL, for redis.call.
func (k *Keyspace) callDel(key string) {
	k.call("DEL")
	k.Delete(key)
}

// callGet is GET, for redis.call.
func (k *Keyspace) callGet(key string) (text string, found bool) {
	k.call("GET")
	text, found, err := k.get(key)
	return need(text, err), found
}

// tell publishes that a lock became free. It returns how many heard it, −1 if the user may not publish.
func (k *Keyspace) tell(channel string) int {
	if k.may("PUBLISH") != nil {
		return -1
	}
	return k.publish(channel, "0")
}

// need ends the program with an error, if there is one.
func need[T any](value T, err error) T {
	fail(err)
	return value
}

// fail ends the program if there is an error.
func fail(err error) {
	if err != nil {
		panic(ending{err})
	}
}

// ending is the panic of a program that an error ends.
type ending struct{ err error }

// run carries out a program.
func (k *Keyspace) run(p program, keys, args []string) (reply any, err error) {
	k.wrote = false
	if k.refusals != nil && k.refusals.Key != "" && slices.Contains(keys, k.refusals.Key) {
		return nil, errNoKey
	}
	defer func() {
		switch e := recover().(type) {
		case nil:
		case ending:
			reply, err = nil, e.err
		default:
			panic(e)
		}
	}()
	return p(k, keys, args), nil
}

// try is may for redis.pcall of Lua, where the script names what was refused.
func (k *Keyspace) try(command string) error { return by(command, k.may(command)) }

func by(command string, refusal error) error {
	if refusal == nil {
		return nil
	}
	return replyError(refusal.Error() + " (" + command + ")")
}

func isWrongType(err error) bool { return errors.Is(err, errWrongType) }

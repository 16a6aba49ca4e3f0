package pubsub

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Linger is how long the connection outlives the last subscriber: a caller that locks repeatedly
// subscribes again soon.
const Linger = 200 * time.Millisecond

// Subscriber receives the events of one channel. Its methods are called one at a time, and never
// after cancel has returned. They must not block, nor call Subscribe or cancel.
type Subscriber interface {
	// OnSubscribed is called when the server has confirmed the subscription, after each connection
	// again. Messages published before may have been missed.
	OnSubscribed()
	// OnMessage is called for each message.
	OnMessage()
	// OnUnsubscribed is called when a confirmed subscription is lost. It is requested again.
	OnUnsubscribed()
}

// Take takes a connection, and returns the run id of the process to which it leads.
type Take func(context.Context) (c redis.Conn, process string, err error)

// Subscriptions holds the subscriptions to channels of one server. It is safe for concurrent use.
//
// A silent server is pinged after one timeout. After two, its connection is closed.
type Subscriptions struct {
	take    Take
	timeout time.Duration
	rng     *rand.Rand // for the run goroutine
	group   *sync.WaitGroup
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc

	mu       sync.Mutex
	channels map[string]*channel
	running  bool
	process  string    // whose connection is not left
	conn     *conn     // nil when there is no connection
	changed  sync.Cond // for the connection's writer, or while there is none for pause
}

// channel is a channel that has subscribers.
type channel struct {
	subscriptions []*subscription
	confirmed     bool
}

// subscription is one subscriber of a channel.
type subscription struct {
	to    Subscriber
	index int // in channel.subscriptions
}

// remove takes the same time for any number of subscribers.
func (c *channel) remove(sub *subscription) {
	last := len(c.subscriptions) - 1
	c.subscriptions[sub.index] = c.subscriptions[last]
	c.subscriptions[sub.index].index = sub.index
	c.subscriptions[last] = nil
	c.subscriptions = c.subscriptions[:last]
}

// conn is one connection for messages, with a goroutine that writes and one that reads.
// Subscriptions.mu guards its fields.
type conn struct {
	raw            redis.Conn // not embedded: that would hide its timeouts from redisconn
	process        string
	changed        *sync.Cond // the Subscriptions'
	unsent         []command
	unanswered     []command       // sent
	refused        map[string]bool // the channels that the server refused; requested again with the next ping
	pingDue        bool
	pinger         *time.Timer // sets pingDue
	idleSince      time.Time   // when the last subscriber left, or the connection was made
	confirmedSince time.Time   // when the first subscription was confirmed
	moved          bool        // the next reply ends it
	over           bool        // the writer must end
}

// command is a SUBSCRIBE or UNSUBSCRIBE of one channel, or a ping.
type command struct {
	name, channel string
	of            *channel // for which it was sent; nil for a ping
}

var ping = command{name: "PING"}

func (c *conn) sendLocked(cmd command) {
	delete(c.refused, cmd.channel)
	c.unsent = append(c.unsent, cmd)
	c.changed.Signal()
}

func (c *conn) pingLocked() {
	c.pingDue = true
	c.changed.Signal()
}

func (s *Subscriptions) sendLocked(cmd command) {
	if s.conn != nil {
		s.conn.sendLocked(cmd)
	}
}

// silenceLocked is how long a connection may be silent before it is pinged. Without subscribers the
// reply to the ping ends it.
func (s *Subscriptions) silenceLocked() time.Duration {
	if len(s.channels) == 0 {
		return min(Linger, s.timeout)
	}
	return s.timeout
}

// forEachLocked calls fn for every channel in the order of names, so that a run can be replayed.
func (s *Subscriptions) forEachLocked(fn func(name string, c *channel)) {
	for _, name := range slices.Sorted(maps.Keys(s.channels)) {
		fn(name, s.channels[name])
	}
}

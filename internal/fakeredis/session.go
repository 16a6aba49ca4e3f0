package fakeredis

import (
	"bufio"
	"net"
	"strings"
	"sync"
)

// session is one connection to a master.
type session struct {
	master *Master
	conn   net.Conn

	// The master's mutex guards subscribed and patterns.
	subscribed, patterns map[string]bool

	mu    sync.Mutex
	ready sync.Cond
	out   []byte // replies and messages to write
	over  bool
}

func newSession(m *Master, conn net.Conn) *session {
	s := &session{master: m, conn: conn, subscribed: map[string]bool{}, patterns: map[string]bool{}}
	s.ready.L = &s.mu
	return s
}

// serve runs the commands of a connection. A goroutine of its own writes the replies, so a
// subscriber that does not read blocks no other connection.
func (s *session) serve() {
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.write()
	}()
	in := bufio.NewReader(s.conn)
	var replies []byte
	for {
		command, err := ReadCommand(in)
		if err != nil {
			break
		}
		var alive bool
		if replies, alive = s.master.execute(s, command, replies); !alive {
			break
		}
		if in.Buffered() == 0 { // the replies to commands that arrived together leave together
			s.send(replies)
			replies = replies[:0]
		}
	}
	s.end()
	<-written
}

// send queues bytes for the client.
func (s *session) send(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = append(s.out, b...)
	s.ready.Signal()
}

// end closes the connection. Unwritten replies are lost.
func (s *session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.ready.Signal()
	s.conn.Close()
}

func (s *session) write() {
	var batch []byte
	for {
		s.mu.Lock()
		for len(s.out) == 0 && !s.over {
			s.ready.Wait()
		}
		if s.over {
			s.mu.Unlock()
			return
		}
		batch, s.out = s.out, batch[:0]
		s.mu.Unlock()
		if _, err := s.conn.Write(batch); err != nil {
			s.conn.Close()
			return
		}
	}
}

// execute runs one command and appends its reply. alive is false once the session's process has
// ended.
func (m *Master) execute(s *session, command []string, to []byte) (replies []byte, alive bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.isOver() {
		return to, false
	}
	if c, known := subscribing[name(command)]; known {
		return s.change(c.patterns, c.on, command, to), true
	}
	reply, err := m.runLocked(s, command)
	if err != nil {
		reply = err
	}
	return appendReply(to, reply), true
}

func (s *session) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// subscribing are the commands that subscribe a session to channels or patterns, or unsubscribe it.
var subscribing = map[string]struct{ patterns, on bool }{
	"SUBSCRIBE": {false, true}, "UNSUBSCRIBE": {false, false}, "PSUBSCRIBE": {true, true}, "PUNSUBSCRIBE": {true, false},
}

// change subscribes to the channels, or unsubscribes from them or from all, and confirms each.
func (s *session) change(patterns, on bool, command []string, to []byte) []byte {
	set, word, channels := s.subscribed, strings.ToLower(command[0]), command[1:]
	if patterns {
		set = s.patterns
		s.master.withPatterns[s] = struct{}{}
	}
	if !on && len(channels) == 0 {
		if len(set) == 0 {
			return appendReply(to, []any{word, nil, int64(len(s.subscribed) + len(s.patterns))})
		}
		channels = sorted(set)
	}
	for _, channel := range channels {
		if on {
			set[channel] = true
		} else {
			delete(set, channel)
		}
		if !patterns {
			s.master.noteSubscriberLocked(s, channel, on)
		}
		to = appendReply(to, []any{word, channel, int64(len(s.subscribed) + len(s.patterns))})
	}
	return to
}

// noteSubscriberLocked keeps the sessions of a channel, so that a release costs the same however many
// sessions there are.
func (m *Master) noteSubscriberLocked(s *session, channel string, on bool) {
	of := m.subscribers[channel]
	switch {
	case on && of == nil:
		m.subscribers[channel] = map[*session]struct{}{s: {}}
	case on:
		of[s] = struct{}{}
	default:
		if delete(of, s); len(of) == 0 {
			delete(m.subscribers, channel)
		}
	}
}

// forgetLocked ends what a session has subscribed to.
func (m *Master) forgetLocked(s *session) {
	for channel := range s.subscribed {
		m.noteSubscriberLocked(s, channel, false)
	}
	delete(m.withPatterns, s)
	delete(m.sessions, s)
}

// publishLocked sends a message to every subscriber and returns their number.
func (m *Master) publishLocked(channel, payload string) int {
	receivers := 0
	for s := range m.subscribers[channel] {
		s.send(appendReply(nil, []any{"message", channel, payload}))
		receivers++
	}
	for s := range m.withPatterns {
		for _, pattern := range sorted(s.patterns) {
			if matches(pattern, channel) {
				s.send(appendReply(nil, []any{"pmessage", pattern, channel, payload}))
				receivers++
			}
		}
	}
	return receivers
}

// listeningLocked returns how many sessions have subscribed to a channel by its name.
func (m *Master) listeningLocked(channel string) int64 { return int64(len(m.subscribers[channel])) }

package lease_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/internal/visited"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/scripts"
)

// request is one that a client sends to a master. Its instant is as if it was sent now.
type request struct {
	cmd    lease.Command // of master 0
	number uint8         // of the client's attempt
	token  uint64
	seed   uint8
	resent bool
	marked bool  // a release that leaves a tombstone
	at     place // where it may arrive late, on a master that fails over
	seal   seal  // of one that was carried out there
}

// masters is the states of a master that were found, and what they answer. All masters have one name
// and one process: they are as good as each other.
type masters struct {
	*setup
	states  []masterState
	byKey   map[string]masterID
	replies map[askedOf]replied
	others  map[changeOf]masterID
	renames map[string]uint32 // numbers the states under each order of the clients

	names  [maxClients][]scripts.Name
	owners [owners]scripts.Owner
	list   *scripts.List
	first  masterID // of a master that fails over
}

// anyDepth is the depth of readers, which masters do not keep.
const anyDepth = 255

// foreign is another program's member of a sorted set.
const foreign = "a"

type masterState struct {
	data    *fakeredis.Keyspace
	owners  uint8         // bit by owner: who has a key
	depths  [owners]uint8 // of the owners that have a key
	renamed [len(orders3)]uint32
	unaware bool // its marker is another process's
	run     string
	left    time.Duration // of its quarantine
	free    bool          // no lock is there
	refuses bool
}

// askedOf is a master's state, a client and its request, and changeOf a master's state and a change, packed: a map of
// numbers is faster.
type (
	askedOf  uint64
	changeOf uint64
)

type replied struct {
	master masterID
	is     lease.Reply
	lower  bool // a counter fell
	spoils bool // what is no lock's is gone
	sealed bool // it counts only once the replicas have it
}

type change uint8

const (
	itIsTheSame change = iota
	itForgets
	itRestarts
	itIsBumped
	itsLeasesEnd
	itAges
	itIsAhead  // it is read by a clock that is a tick ahead
	itIsBehind // or behind
	itRelents
	itRefuses // the first of the faults
	itPersists
	itIsMixed
	itIsSwapped // the last of them
)

var (
	nodeTime   = time.UnixMilli(1_000_000_000)
	neighbours = sharesCounter("a")
)

// sharesCounter returns a name that has the counter of another.
func sharesCounter(name string) scripts.Name {
	for i := 0; ; i++ {
		if other := scripts.NewName(fmt.Sprint("n", i)); other.Counter() == scripts.NewName(name).Counter() {
			return other
		}
	}
}

func nameOf(letter rune) scripts.Name {
	if letter == 'n' {
		return neighbours
	}
	return scripts.NewName(string(letter))
}

// placeOf numbers the names.
func placeOf(letter rune) int { return strings.IndexRune("abn", letter) }

func ticks(n int) time.Duration { return time.Duration(n)*tick - time.Millisecond }

func newMasters(s *setup) *masters {
	m := &masters{setup: s, byKey: map[string]masterID{}, replies: map[askedOf]replied{}, others: map[changeOf]masterID{}, renames: map[string]uint32{}}
	m.list = scripts.NewList("m", "others")
	for c := range s.clients() {
		for _, letter := range s.names[c] {
			m.names[c] = append(m.names[c], nameOf(letter))
		}
		for number := range maxAttempts {
			m.owners[ownerOf(c, number)] = scripts.NewOwner(locker(c), uint64(number+1))
		}
	}
	data := fakeredis.NewKeyspace(nodeTime)
	m.mark(data, scripts.At(0), 0)
	m.intern(data)
	if s.fails > 0 {
		data = fakeredis.NewKeyspace(nodeTime)
		m.mark(data, scripts.At(0), firstPlace)
		m.first = m.intern(data)
	}
	return m
}

func locker(client int) string { return fmt.Sprintf("<%d>", client) }

// mark writes the marker as a client does that notices, with the shipped script.
func (m *masters) mark(data *fakeredis.Keyspace, admitted scripts.When, at place) {
	seen := scripts.Seen{Process: m.process(at), Marker: data.Get(scripts.MarkerKey)}
	after := scripts.Marker{Process: seen.Process, Members: m.list, Next: scripts.NewList()}
	last := time.Duration(nodeTime.UnixMilli()) * time.Millisecond
	call := scripts.Mark(seen, after, admitted, scripts.At(0), last)
	m.run(data, call, at)
}

// process is what a connection knows of a master.
func (m *masters) process(at place) scripts.Process {
	return scripts.Process{Run: m.runOf(at), MaxLease: ticks(m.quarantined()), Member: "m"}
}

func (m *masters) run(data *fakeredis.Keyspace, call scripts.Call, at place) (scripts.Reply, error) {
	return m.runMarked(data, call, scripts.NoTombstone, at)
}

func (m *masters) runMarked(data *fakeredis.Keyspace, call scripts.Call, tombstone any, at place) (scripts.Reply, error) {
	process := m.process(at)
	conn := scripts.ConnArgs{Process: process.String(), Expected: process.Expected(m.list), Tombstone: tombstone}
	value, err := data.Run(call, conn)
	if err != nil {
		return scripts.Reply{}, err
	}
	reply, err := call.Parse(value)
	if err != nil {
		panic(err)
	}
	return reply, nil
}

// intern returns the number of a master's state.
func (m *masters) intern(data *fakeredis.Keyspace) masterID {
	if !m.tokens {
		for _, name := range slices.Concat(m.names[:]...) {
			data.Delete(name.Counter())
		}
	}
	same := func(s string) string { return s }
	key := string(data.AppendKey(nil, same))
	if id, known := m.byKey[key]; known {
		return id
	}
	id := masterID(len(m.states))
	m.byKey[key] = id
	st := masterState{data: data, free: true, refuses: data.Refuses()}
	if marker, err := scripts.ParseMarker(data.Get(scripts.MarkerKey)); err == nil {
		st.run, st.left = marker.Run, marker.Quarantine(time.Duration(nodeTime.UnixMilli())*time.Millisecond)
	}
	st.unaware = st.run != m.runOf(0)
	for c := range m.clients() {
		for number := range int(m.attempts[c]) {
			o := ownerOf(c, number)
			for _, name := range m.names[c] {
				if data.Reads(name.String(), m.owners[o].String()) {
					st.owners |= 1 << o
					st.depths[o] = anyDepth
					st.free = false
				}
				if depth, there := data.Fields(name.String())[m.owners[o].String()]; there {
					st.owners |= 1 << o
					st.depths[o] = depth[0] - '0'
					st.free = false
				}
			}
		}
	}
	for i, order := range orders3 {
		if m.allows(i) {
			var pairs []string
			for c := range maxClients {
				pairs = append(pairs, locker(c), locker(order[c]))
			}
			renames := strings.NewReplacer(pairs...)
			st.renamed[i] = numberOf(m.renames, string(data.AppendKey(nil, renames.Replace)))
		}
	}
	m.states = append(m.states, st)
	return id
}

func numberOf(all map[string]uint32, key string) uint32 {
	return visited.Once(all, key, func() uint32 { return uint32(len(all)) })
}

// ask carries out a request, or returns what it did before.
func (m *masters) ask(id masterID, client int, asked requestID, r *request, at place) replied {
	key := askedOf(id)<<32 | askedOf(at)<<24 | askedOf(client)<<16 | askedOf(asked)
	return visited.Once(m.replies, key, func() replied { return m.carryOut(id, client, r, at) })
}

func (m *masters) carryOut(id masterID, client int, r *request, at place) replied {
	data, owner, tombstone := m.states[id].data.Clone(), m.owners[ownerOf(client, int(r.number))], scripts.NoTombstone
	if r.marked {
		tombstone = ticks(m.maxLease).Milliseconds()
	}
	before, strangers := m.counters(data), m.strangers(data)
	call := m.call(client, owner, r)
	if at.refuses() {
		data.Refuse(fakeredis.Refusals{ReadOnly: true})
	}
	reply, err := m.runMarked(data, call, tombstone, at)
	if at.refuses() {
		data.Refuse(fakeredis.Refusals{})
	}
	if err != nil { // what it has written stays
		nothing := !r.resent && redisconn.ProvesNothingDone(redis.Error(err.Error()))
		return replied{master: m.intern(data), is: lease.Reply{Is: lease.Failed, Resent: r.resent, NothingDone: nothing}}
	}
	found := replied{lower: m.lower(before, m.counters(data)), spoils: m.strangers(data) < strangers, is: lease.Reply{Resent: r.resent}}
	switch r.cmd.Do {
	case lease.Ask, lease.Repair, lease.Enter:
		found.is.Is = [...]lease.Answer{scripts.Granted: lease.Granted, scripts.HeldByAnother: lease.Refused, scripts.Quarantined: lease.Quarantined,
			scripts.NotAccepted: lease.NotAccepted, scripts.Barred: lease.Barred, scripts.Passed: lease.Refused}[reply.Acquire.Outcome]
		found.is.Token = reply.Acquire.Token
	case lease.Renew, lease.Extend:
		found.is.Is = map[scripts.Renewed]lease.Answer{scripts.Kept: lease.Kept, scripts.Gone: lease.Gone, scripts.Taken: lease.Taken,
			scripts.NotRenewed: lease.NotRenewed}[reply.Renew[0]]
	case lease.Raise:
		found.is.Is, found.is.Token = lease.Kept, reply.Raise
	case lease.Release:
		found.is.Is = lease.Kept
	}
	found.sealed = isPositive(found.is.Is) && m.seals() && m.seal(at).Covers(call)
	found.master = m.intern(data)
	return found
}

// call is a request as package quorum makes it.
func (m *masters) call(client int, owner scripts.Owner, r *request) scripts.Call {
	names, millis := m.names[client], scripts.ToMillis(r.cmd.Lease)
	args := scripts.AcquireArgs{Names: names, Owner: owner, Depth: r.cmd.Depth, Lease: millis, List: m.list}
	if r.cmd.Mode == lease.Read {
		owner = owner.AsReader()
		args.Owner = owner
	} else if m.takes[client] {
		args.Predecessor = &m.owners[0]
	}
	switch r.cmd.Do {
	case lease.Ask, lease.Repair, lease.Enter:
		if args.Token = r.token; r.cmd.Do == lease.Ask && r.token == 0 {
			args.Seed = uint64(r.seed)
		}
		if r.cmd.Mode == lease.Read {
			return scripts.Read(args)
		}
		return scripts.Acquire(args)
	case lease.Raise:
		return scripts.Raise(names, owner, r.token)
	case lease.Renew, lease.Extend:
		return scripts.Renew(m.list, millis, []scripts.Renewal{{Names: names, Owner: owner, Token: r.token}})
	case lease.Release:
		return scripts.Release(names, owner, r.cmd.Depth)
	}
	panic("no request")
}

func (m *masters) counters(data *fakeredis.Keyspace) (all [maxNames]int) {
	for i, letter := range "abn" {
		all[i], _ = strconv.Atoi(data.Get(nameOf(letter).Counter()))
	}
	return all
}

// strangers counts the members of sorted sets that are not the library's.
func (m *masters) strangers(data *fakeredis.Keyspace) (n int) {
	for _, letter := range "abn" {
		if _, there := data.Scores(nameOf(letter).String())[foreign]; there {
			n++
		}
	}
	return n
}

func (m *masters) lower(before, after [maxNames]int) bool {
	for i := range before {
		if after[i] < before[i] {
			return true
		}
	}
	return false
}

// changed is what becomes of a master.
func (m *masters) changed(id masterID, what change) masterID {
	return visited.Once(m.others, changeOf(id)<<16|changeOf(what), func() masterID {
		data := m.states[id].data.Clone()
		switch what {
		case itForgets:
			data = fakeredis.NewKeyspace(nodeTime)
		case itRestarts: // the marker names another process now
			data.Set(scripts.MarkerKey, strings.Replace(data.Get(scripts.MarkerKey), " process ", " former ", 1))
		case itIsBumped:
			m.bump(data)
		case itsLeasesEnd:
			for _, name := range slices.Concat(m.names[:]...) {
				data.Delete(name.String())
			}
		case itRefuses:
			data.Refuse(m.refuses)
		case itRelents:
			data.Refuse(fakeredis.Refusals{})
		case itPersists:
			for _, name := range slices.Concat(m.names[:]...) {
				data.Persist(name.String())
			}
		case itIsMixed: // a reader that has died, and another program's member, come before the readers
			for c := range m.clients() {
				if set := data.Scores(m.names[c][0].String()); set != nil {
					set[scripts.NewOwner("dead", 1).AsReader().String()], set[foreign] = nodeTime.UnixMilli()-2, nodeTime.UnixMilli()-1
				}
			}
		case itIsSwapped: // with one that a client has marked before
			data = fakeredis.NewKeyspace(nodeTime)
			m.mark(data, scripts.At(0), 0)
			data.Set(scripts.MarkerKey, strings.Replace(data.Get(scripts.MarkerKey), " process ", " former ", 1))
		case itAges, itIsAhead:
			data.Age(tick)
			m.ageMarker(data, tick)
		case itIsBehind:
			data.Age(-tick)
			m.ageMarker(data, -tick)
		}
		return m.intern(data)
	})
}

// noticed is a master whose marker a client writes, because it is another process's.
func (m *masters) noticed(id masterID, at place) masterID {
	return visited.Once(m.others, changeOf(id)<<16|changeOf(at)<<8|0xff, func() masterID {
		data := m.states[id].data.Clone()
		admitted := scripts.In(ticks(m.quarantined()))
		if m.clock == lying { // the server's, by which it may be over at once
			admitted = scripts.At(0)
		}
		m.mark(data, admitted, at)
		return m.intern(data)
	})
}

// bump is a neighbour that is granted, and releases.
func (m *masters) bump(data *fakeredis.Keyspace) {
	names, owner := []scripts.Name{neighbours}, scripts.NewOwner("neighbour", 1)
	m.run(data, scripts.Acquire(scripts.AcquireArgs{Names: names, Owner: owner, Depth: 1, Lease: scripts.ToMillis(tick), List: m.list}), 0)
	m.run(data, scripts.Release(names, owner, 0), 0)
}

// ageMarker moves the end of a quarantine, which the marker has as an instant; 0 for one that is over.
func (m *masters) ageMarker(data *fakeredis.Keyspace, by time.Duration) {
	text := data.Get(scripts.MarkerKey)
	first, rest, _ := strings.Cut(text, " ")
	if admitted, _ := strconv.ParseInt(first, 10, 64); admitted > 0 {
		if admitted -= by.Milliseconds(); admitted <= nodeTime.UnixMilli() {
			admitted = 0
		}
		data.Set(scripts.MarkerKey, strconv.FormatInt(admitted, 10)+" "+rest)
	}
}

//go:build unix

package chaos

import (
	"fmt"
	"hash/fnv"
	"slices"
	"testing"
	"time"
)

// scenarios returns all schedules, in the order of the report.
func scenarios() []scenario {
	return append([]scenario{
		{name: "minority killed",
			shows: "A minority of the masters is killed, and comes back empty. The lock goes on at once.",
			play:  minorityKilled},
		{name: "majority killed and back",
			shows: "A majority is killed and comes back empty. No client acquires meanwhile; a client does within one max lease and a second of its return.",
			play:  majorityKilled},
		{name: "rolling restart of every master under a lock held throughout",
			shows: "Every master crashes and restarts, one after another, with a max lease between; one in three keeps nothing, one has an append-only file synced every second, one always. One client holds the lock all the time, and writes at the end.",
			lease: time.Second, disks: [][]string{noDisk, aofEverySec, aofAlways}, play: rollingRestart},
		{name: "restart amnesia between two holders", lease: 2 * time.Second,
			shows: "A holds on a bare majority, cut off from the rest. One of that majority restarts and forgets, out of A's reach. B reaches all masters, and must not acquire before A releases.",
			play:  amnesia},
		{name: "thin quorum after a flush", lease: 2 * time.Second,
			shows: "The same, with FLUSHALL in place of the restart.",
			play:  thinQuorum},
		{name: "failover to a replica that lacks the lock", lease: 2 * time.Second,
			shows: "The same, where a replica without the lock takes the master's place behind its address.",
			play:  toStaleReplica},
		{name: "partition of the holder",
			shows: "The holder is cut off from all masters. It stops at its deadline, and withholds its write; another acquires.",
			play:  partitionOfHolder},
		{name: "partition that splits the clients",
			shows: "Two groups of clients reach different masters; the group that reaches a majority goes on. Then the groups change roles; then one group's replies and the other's requests are lost; then, where the back end can, a majority of the masters leaves the network.",
			play:  partitionOfClients},
		{name: "frozen master",
			shows: "A frozen minority delays no client. A majority that is frozen for longer than a lease ends the hold by the holder's own clock, before the thaw lets the next client in.",
			play:  frozenMaster},
		{name: "slow master",
			shows: "One master, then a majority, gets everything 100 ms late, with 50 ms of jitter either way.",
			play:  slowMaster},
		{name: "lost replies on acquire, renew, release",
			shows: "Masters run a client's requests, and the replies are lost.",
			play:  lostReplies},
		{name: "client paused longer than its lease with a write in hand",
			shows: "A client that no longer checks its lock before it writes is stopped for longer than its lease. The next holder has written by then, and the register refuses the write. Then other clients are stopped at random points.",
			play:  pausedClient},
		{name: "crowd of clients restarting",
			shows: "One client of a crowd after another crashes, or ends in good order, and another one starts.",
			play:  restartingClients},
		{name: "callers that give up while their requests are on the way",
			shows: "Callers' contexts end in the middle of their attempts, over and over, on slow paths. The lease is long, so that a grant that is not undone is noticed.",
			lease: 10 * time.Second, play: cancelled},
		{name: "clocks of a minority stepped",
			shows:  "The clocks of a minority of the servers jump an hour ahead, then two hours back, then to the right time, under a lock that all servers had granted. The masters are processes here, with a library between each and its clock; safety.md tells the effect of more steps.",
			clocks: true, play: steppedClocks},
		{name: "semaphore of two slots", slots: 2,
			shows: "Three clients, each cut off from another minority of the masters, contend for two slots with clients that reach all masters. Then a master is killed and comes back empty, and clients are stopped for longer than their leases. There are never three holders, and no slot has two. The control counts holders on each master, up to two, and who is counted by a majority holds. A double hold here is one more holder than slots.",
			play:  sharedSlots},
		{name: "random walk over all faults",
			shows: "Faults, masters, clients and times by seed; some clients write without checking their lock. At the end all faults are healed.",
			lease: time.Second, disks: [][]string{noDisk, aofEverySec, aofAlways}, play: walk},
		{name: "a live master is replaced", spares: 1, founded: true, lease: 3 * time.Second,
			shows: "Clients found the deployment. Then one more master is added and another removed, under contenders that roll over to the next list one after another, and under a lock that is held all the time. Each `quorumlock members` is killed when it has marked some of the masters, and is repeated. Meanwhile a master is killed, frozen, or cut off from the contenders. Two clients with wrong lists try all the time, and two stale clients keep the first list: one contends, one holds a lock on a bare majority, until the first commit.",
			play:  replaceLive},
		{name: "a dead master is replaced", spares: 1, founded: true, lease: 3 * time.Second,
			shows: "The same, where the master is dead: it is removed, and then another is added. Of 3 masters the 2 that are left must be up until then. In the end the master turns out to have been frozen: it comes back with the first list, and alone accepts the stale clients.",
			play:  replaceDead},
		{name: "two masters are added", spares: 2, founded: true, lease: 3 * time.Second,
			shows: "The same, where 3 masters become 5, or 5 become 7.",
			play:  grow},
		{name: "two operators against each other", spares: 1,
			shows: "Of one master more, one operator removes the last but one, the other the last, over and over. Either adds what is missing, and commits or aborts what is announced. Half of the commands are killed, most of them half-way. Meanwhile one master after another is killed and comes back empty, and an operator is cut off from a master. Clients of all three lists lock; some reach only bare majorities, of which two have no master in common. In the end one operator goes on alone, and clients of the list that is left acquire.",
			play:  againstEachOther},
		{name: "walk of two operators among all faults", spares: 1, disks: [][]string{noDisk, aofEverySec, aofAlways},
			shows: "The random walk, with these operators, and clients of all their lists.",
			play:  rivalWalk},
	}, failovers()...)
}

// TestChaos plays every scenario, on 3 and on 5 masters with -chaos.full, else on either in turn.
func TestChaos(t *testing.T) {
	for i, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			for _, n := range s.sizes(i) {
				t.Run(fmt.Sprint(n), func(t *testing.T) { perform(t, s, library, n) })
			}
		})
	}
}

func (s scenario) sizes(i int) []int {
	switch {
	case *nodes != 0:
		return []int{*nodes}
	case *full && s.on != nil:
		return s.on
	case s.on != nil:
		return s.on[:1]
	case *full:
		return []int{3, 5}
	case i%2 == 0:
		return []int{3}
	default:
		return []int{5}
	}
}

// seedOf is a scenario's own seed. It does not depend on which others run.
func seedOf(scenario string, n int) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, scenario, n, *seed)
	return h.Sum64() >> 12
}

// control is a schedule that is played with a protection switched off, to show that it does harm
// then, and with redsync.
type control struct {
	scenario string
	without  string // the kind of contender; see open in ../contender/own, and marked if it has no marker or token
	means    string
	harm     func(*result) bool
	always   bool // redsync must do harm, too
}

// controlTries is how often a schedule may do no harm: on a busy machine the next renewal can come
// before the other contender.
const controlTries = 3

func doubleHold(r *result) bool { return r.DoubleHolds > 0 }
func twoHolders(r *result) bool { return r.DoubleHolds > 0 && slices.Contains(r.Notes, twoLists) }
func orphan(r *result) bool     { return r.Orphans > 0 }

func controls() []control {
	const trusting = "masters that forgot are trusted at once (node.WithoutQuarantine)"
	const unsealed = "the complete library, without failover=N: nobody asks whether the replicas have acknowledged"
	const twoLists = "the complete library, on masters that accept two lists: the harness overwrites their markers, in place of `quorumlock members`, so that the first list is accepted as well as the newest one. Clients with wrong lists are refused: a marker has room for two lists"
	return []control{
		{pairScenario, "no-quarantine", trusting, doubleHold, true},
		{"thin quorum after a flush", "no-quarantine", trusting, doubleHold, false},
		{"failover to a replica that lacks the lock", "no-quarantine", trusting, doubleHold, false},
		{"frozen master", "no-deadline", "the holder checks neither the lock's context nor Valid", doubleHold, false},
		{"callers that give up while their requests are on the way", "no-rollback",
			"a failed attempt is undone on its caller's context, so not after the end of that context", orphan, false},
		{"semaphore of two slots", "counting", "each master counts holders, up to the number of slots, and who is counted by a majority of the masters holds", doubleHold, false},
		{"a live master is replaced", noRefusal, twoLists, twoHolders, true},
		{"two masters are added", noRefusal, twoLists, twoHolders, true},
		{"two operators against each other", noRefusal, "here the two lists are those without one of the operators' masters", doubleHold, true},
		{"failover: each fault in turn", plain, unsealed, doubleHold, false},
		{"failover: primary stands still", plain, unsealed, doubleHold, false},
		{"failover: holder stays beside the old primary", plain, unsealed, doubleHold, true},
		{"failover: holder follows the new primary", plain, unsealed, doubleHold, true},
		{"failover: wild walk", plain, unsealed, doubleHold, false},
		{"failover: two replicas, and one goes back and forth", fewer, "failover=1, of two replicas", doubleHold, false},
	}
}

// TestControls plays schedules without the library's protection against them: then they must do
// harm. With -chaos.full redsync plays the same schedules. It must do harm if its clients have
// different lists of masters; elsewhere nothing is expected.
func TestControls(t *testing.T) {
	all := scenarios()
	for _, c := range controls() {
		s := all[slices.IndexFunc(all, func(s scenario) bool { return s.name == c.scenario })]
		if !*full && c.scenario == "failover to a replica that lacks the lock" {
			continue // the same protection as the two before
		}
		t.Run(s.name, func(t *testing.T) {
			for _, n := range controlSizes(s) {
				if n > 1 && s.name == "failover: wild walk" {
					continue // two of three masters seldom have two primaries at once
				}
				t.Run(fmt.Sprintf("%s/%d", c.without, n), func(t *testing.T) {
					c.mustHarm(t, s, c.without, n)
				})
				if !*full {
					continue
				}
				t.Run(fmt.Sprintf("redsync/%d", n), func(t *testing.T) {
					if _, err := program(redsync); err != nil {
						lab.report.note("redsync was not run: its program could not be built")
						t.Skipf("SKIPPED: %v", err)
					}
					if c.always {
						c.mustHarm(t, s, redsync, n)
					} else {
						perform(t, s, redsync, n)
					}
				})
			}
		})
	}
}

func (c control) mustHarm(t *testing.T, s scenario, kind string, n int) {
	t.Helper()
	defer func(first uint64) { *seed = first }(*seed)
	for try := range controlTries {
		harm := false
		t.Run(fmt.Sprint("try ", try), func(t *testing.T) { harm = c.harm(perform(t, s, kind, n)) })
		if harm {
			return
		}
		*seed++ // a walk may do no harm, each time
	}
	t.Errorf("the schedule did no harm %d times", controlTries)
}

func controlSizes(s scenario) []int {
	if *full || *nodes != 0 || s.on != nil {
		return s.sizes(0)
	}
	return []int{3}
}

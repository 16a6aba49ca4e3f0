package scene

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
)

// ask is for commands that hold nothing.
func (p *play) ask(l line) {
	p.t.Helper()
	locker, names := p.locker(l), l.words[1:]
	ctx, cancel := p.context(l)
	defer cancel()
	name, did, slots, began := l.as(), "", l.integers("slots"), time.Now()
	var err error
	switch l.cmd {
	case "force":
		if l.has("sem") {
			err = operator.ForceUnlockSlots(ctx, p.semaphore(l), slots...)
		} else {
			err = operator.ForceUnlock(ctx, locker, names...)
		}
	case "forceowner":
		if l.has("sem") {
			err = operator.ForceUnlockOwnerSlots(ctx, p.semaphore(l), p.owner(l.text("owner")), slots...)
		} else {
			err = operator.ForceUnlockOwner(ctx, locker, p.owner(l.text("owner")), names...)
		}
	case "check":
		err = locker.CheckNames(names...)
	case "ready":
		err = locker.Ready(ctx)
	case "inspect":
		var all []operator.Status
		if l.has("sem") {
			all, err = operator.InspectSlots(ctx, p.semaphore(l))
		} else {
			all = make([]operator.Status, 1)
			all[0], err = operator.Inspect(ctx, locker, names[0])
		}
		for _, status := range all {
			did += strings.ReplaceAll(status.String(), "; node ", "\n  node ") + "\n"
		}
		did = strings.TrimSpace(did)
	}
	if errors.Is(err, quorum.ErrInvalid) || errors.Is(err, quorum.ErrClosed) {
		did = "" // nothing was asked
	}
	if err != nil || did == "" {
		p.did(l.cmd, name, err, began)
	}
	if did != "" {
		p.say(name, "%s: %s", name, did)
	}
}

// do runs work of for=1s that may fail.
func (p *play) do(l line) {
	p.t.Helper()
	name, began := l.name(), time.Now()
	ctx, cancel := p.context(l)
	defer cancel()
	work := func(ctx context.Context, lock *quorum.Lock) error {
		testkit.Check(p.t, ctx == lock.Context() && lock.Valid(), "%s: the work has %v, and another context", name, lock)
		p.say(name, "%s: works, %s", name, p.lock(lock))
		if l.has("for") {
			time.Sleep(l.duration("for", 0))
		}
		if l.has("fails") {
			return errors.New("the work's own error")
		}
		return nil
	}
	locker, names := p.locker(l), l.words[1:]
	var err error
	switch {
	case l.has("sem"):
		err = p.semaphore(l).Do(ctx, work)
	case l.has("read"):
		err = locker.RWLock(names[0]).RDo(ctx, work)
	default:
		err = locker.Do(ctx, work, names...)
	}
	p.did("worked", name, err, began)
}

// took is how long something took that took time.
func took(began time.Time) string { return after(time.Since(began)) }

func after(d time.Duration) string {
	if d = d.Round(time.Millisecond); d > 0 {
		return ", after " + d.String()
	}
	return ""
}

// held is what a lock says of itself, and of its context if that has ended.
func (p *play) held(l line) {
	p.t.Helper()
	lock, name := p.handle(l)
	left := time.Until(lock.Deadline()).Round(time.Millisecond)
	said, failed := fmt.Sprintf("%v, depth %d, valid for %v", lock, lock.Depth(), left), ""
	if err := lock.Err(); err != nil {
		failed = p.failed(err)
	}
	if !lock.Valid() {
		said = fmt.Sprintf("%v, depth %d, not valid: %s", lock, lock.Depth(), failed)
	}
	if ctx := lock.Context(); ctx.Err() != nil {
		cause := p.failed(context.Cause(ctx))
		if cause == failed {
			cause = "the same"
		}
		said += "; its context: " + cause
	}
	p.say(name, "%s: %s", name, said)
}

// stats has what is not 0.
func (p *play) stats(l line) {
	s := p.locker(l).Stats()
	said := []string{fmt.Sprintf("held %d, waiting %d, voters %d", s.Held, s.Waiting, s.Voters)}
	add := func(what string, n uint64) {
		if n > 0 {
			said = append(said, fmt.Sprint(what, " ", n))
		}
	}
	for _, outcome := range sorted(s.Attempts) {
		add("attempts "+outcome, s.Attempts[outcome])
	}
	add("released", s.Released)
	add("lost", s.Lost)
	add("write-backs", s.WriteBacks)
	add("unannounced", s.Unannounced)
	for _, n := range s.Nodes {
		if n.State != "up" {
			said = append(said, n.Name+" "+n.State)
		}
		add(n.Name+" renewals failed", n.RenewalsFailed)
		add(n.Name+" repairs", n.Repairs)
		add(n.Name+" repairs failed", n.RepairsFailed)
	}
	p.say(l.words[0], "%s: %s", l.words[0], strings.Join(said, ", "))
}

// scripts has what ran since the last time.
func (p *play) scripts(line) { p.say("", "ran: %s", strings.Join(p.count(), ", ")) }

func (p *play) count() (said []string) {
	for _, s := range scripts.All() {
		n := p.w.Ran(s.Name())
		if more := n - p.ran[s.Name()]; more > 0 && s.Name() != "introduce" {
			said = append(said, fmt.Sprint(s.Name(), " ", more))
		}
		p.ran[s.Name()] = n
	}
	return said
}

// subscribed counts the subscriptions to a name's channel.
func (p *play) subscribed(l line) {
	n := 0
	for _, m := range p.w.Masters {
		n += m.Listening(scripts.Channel(l.words[0]))
	}
	p.say("", "%s: %d subscriptions", l.words[0], n)
}

// subscribe makes a client that subscribes to a name's channel on every master, and never asks for the lock.
func (p *play) subscribe(l line) {
	for _, m := range p.w.Masters {
		ours, theirs := net.Pipe()
		go m.Serve(theirs)
		conn := redis.PubSubConn{Conn: redis.NewConn(ours, 0, 0)}
		p.t.Cleanup(func() { conn.Close() })
		testkit.Must(p.t, conn.Subscribe(scripts.Channel(l.words[0])))
		go func() {
			for conn.Conn.Err() == nil {
				conn.Receive()
			}
		}()
	}
}

// on runs a command on a master.
func (p *play) on(master int, name string, args ...any) any {
	p.t.Helper()
	conn := testkit.Pipe(p.w.Masters[master].Serve)
	defer conn.Close()
	reply, err := conn.Do(name, args...)
	testkit.Must(p.t, err)
	return reply
}

func (p *play) redis(l line) {
	var args []any
	for _, word := range l.words[2:] {
		args = append(args, word)
	}
	for _, i := range p.mastersAt(l) {
		p.on(i, l.words[1], args...)
	}
}

// mastersAt is the master that the line names first, or all.
func (p *play) mastersAt(l line) []int {
	if l.words[0] != "all" {
		return []int{l.number(0)}
	}
	return p.allMasters()
}

// slow has masters wait before each reply, or before those to one script, from now on.
func (p *play) slow(l line) {
	d, err := time.ParseDuration(l.words[1])
	testkit.Must(p.t, err)
	only := l.text("script")
	p.w.Before(func(s world.Script) {
		if s.Name == only || only == "" && s.Name != "introduce" {
			time.Sleep(d)
		}
	}, p.mastersAt(l)...)
}

// keys names masters with the same keys together.
func (p *play) keys(l line) {
	p.t.Helper()
	masters := map[string][]string{}
	var order []string
	for i, m := range p.w.Masters {
		content := "down"
		if m.Up() {
			content = p.keysOf(i, len(l.words) > 0)
		}
		if masters[content] == nil {
			order = append(order, content)
		}
		masters[content] = append(masters[content], strconv.Itoa(i))
	}
	for _, content := range order {
		p.say("", "%s: %s", strings.Join(masters[content], " "), content)
	}
}

func (p *play) keysOf(master int, all bool) string {
	keys, err := redis.Strings(p.on(master, "KEYS", "*"), nil)
	testkit.Must(p.t, err)
	slices.Sort(keys)
	var said []string
	for _, key := range keys {
		own := strings.TrimPrefix(key, scripts.Prefix)
		if kind, _, _ := strings.Cut(own, ":"); !all && own != key && (kind == "marker" || kind == "counter" || kind == "locker") {
			continue
		}
		what := own
		switch p.on(master, "TYPE", key) {
		case "hash":
			fields, err := redis.StringMap(p.on(master, "HGETALL", key), nil)
			testkit.Must(p.t, err)
			for _, owner := range sorted(fields) {
				switch {
				case !operators.ValidOwner(owner):
					what += fmt.Sprintf(" {%s %s}", owner, fields[owner])
				case fields[owner] == "1":
					what += " of " + owner
				default:
					what += fmt.Sprintf(" of %s, depth %s", owner, fields[owner])
				}
			}
		case "zset":
			members, err := redis.StringMap(p.on(master, "ZRANGE", key, 0, -1, "WITHSCORES"), nil)
			testkit.Must(p.t, err)
			for _, member := range sorted(members) {
				what += " read by " + strings.TrimPrefix(member, scripts.Prefix+"reader:")
			}
		}
		said = append(said, what)
	}
	if said == nil {
		return "nothing"
	}
	return strings.Join(said, ", ")
}

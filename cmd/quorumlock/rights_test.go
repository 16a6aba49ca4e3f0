package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/quorum/semaphore"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/scripts"
)

// rulesIn returns the rules of the user app in a file of docs/deploy.
func rulesIn(t *testing.T, file string) (rules []string) {
	t.Helper()
	for line := range strings.Lines(testkit.Read(t, filepath.Join("..", "..", "docs", "deploy", file))) {
		if of, found := strings.CutPrefix(strings.TrimSpace(line), "user app "); found {
			rules = strings.Fields(of)
		}
	}
	return rules
}

// inScripts returns the commands that the scripts call, as rules name them. PUBSUB is followed by its subcommand.
func inScripts() map[string]bool {
	called := map[string]bool{}
	for _, s := range scripts.All() {
		for i, line := range strings.Split(s.Source(), "\n") {
			for _, command := range scripts.CommandsAt(s.SHA().(string), i+1) {
				command = strings.ToLower(command)
				if command == "pubsub" {
					command += "|" + map[bool]string{true: "channels", false: "numsub"}[strings.Contains(line, "'CHANNELS'")]
				}
				called[command] = true
			}
		}
	}
	return called
}

// A user of users.acl's commands who is limited to a prefix has the rights that everything needs with that prefix.
func TestAUserOfAPrefix(t *testing.T) {
	redistest.Need(t, redistest.AskedRights)
	t.Parallel()
	rules := slices.DeleteFunc(rulesIn(t, "users.acl"), func(rule string) bool { return strings.ContainsAny(rule[:1], "~&") })
	rules = append(rules, "~team:*", "&team:*")
	foreign := [][]any{{"HSET", "users", "locker:1", "1"}, {"HSET", "teams:quorumlock:lock:a", "locker:1", "1"}, {"ZADD", "scores", "1", "ann"}}
	for _, m := range usesEverything(t, rules, "?prefix=team", foreign...) {
		for _, command := range foreign {
			testkit.Do(t, m, "DEL", command[1])
		}
		keys := testkit.Got(redis.Strings(m.Do("KEYS", "*")))(t)
		for _, key := range keys {
			testkit.Check(t, strings.HasPrefix(key, "team:quorumlock:"), "%q has no prefix", key)
		}
		testkit.Do(t, m, redistest.SetUser("app", "resetkeys", "~quorumlock:*", "resetchannels", "&redisson_lock__channel*")...)
		printed, _ := clitest.Command(t, cli.ExitFailed, "check", fmt.Sprintf("redis://app:change-me-app@%s?prefix=team", m.Addr()))
		clitest.Contains(t, printed, "(the user needs the keys and channels team:*)")
	}
}

// The user of users.acl, which kubernetes.yaml repeats, has the rights that everything here needs, and no other.
func TestTheUserHasTheRightsThatAreNeeded(t *testing.T) {
	redistest.Need(t, redistest.AskedRights)
	t.Parallel()
	rules := rulesIn(t, "users.acl")
	testkit.Equal(t, strings.Join(rulesIn(t, "kubernetes.yaml"), " "), strings.Join(rules, " "), "kubernetes.yaml")
	var commands []string
	for _, rule := range rules {
		if command, isOne := strings.CutPrefix(rule, "+"); isOne {
			commands = append(commands, command)
		}
	}

	needed := inScripts()
	for _, m := range usesEverything(t, rules, "") {
		stats := testkit.Got(redis.String(m.Do("INFO", "commandstats")))(t)
		for line := range strings.Lines(stats) {
			if command, _, isOne := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":"); isOne {
				needed[command] = true
			}
		}
	}
	for command := range needed {
		asks := []string{"acl|log", "acl|setuser", "config|resetstat", "replconf"} // the test itself
		testkit.Check(t, slices.Contains(commands, command) || slices.Contains(asks, command) || command == "auth", "+%s is missing", command)
	}
	for _, command := range commands {
		testkit.Check(t, needed[command], "+%s is not needed", command)
	}
}

// usesEverything does everything as that user, with a URL's end for the prefix, and returns the masters, which have denied
// nothing. Commands of another user come first.
func usesEverything(t *testing.T, rules []string, prefix string, foreign ...[]any) []*redistest.Master {
	d := &clitest.Deployment{Fleet: testkit.Real(t, 4), MaxLease: 10 * time.Second}
	var urls []string
	for i, m := range d.Masters {
		for _, command := range foreign {
			testkit.Do(t, m, command...)
		}
		testkit.Do(t, m, redistest.SetUser("app", rules...)...)
		testkit.Do(t, m, "CONFIG", "RESETSTAT")
		urls = append(urls, fmt.Sprintf("redis://app:change-me-app@%s%s&name=%c", m.Addr(), cmp.Or(prefix, "?"), 'a'+i))
	}
	doEverything(t, d, urls, prefix)
	d.Masters = append(d.Masters, failsOver(t, rules, prefix))
	for _, m := range d.Masters {
		denied, err := redis.Values(m.Do("ACL", "LOG"))
		testkit.Check(t, err == nil && len(denied) == 0, "denied: %q, %v", denied, err)
	}
	return d.Masters
}

// failsOver locks as that user on a master that has a replica, and returns the master.
func failsOver(t *testing.T, rules []string, prefix string) *redistest.Master {
	servers := testkit.Real(t, 2, "--repl-diskless-sync-delay", "0").Masters
	m, replica := servers[0], servers[1]
	testkit.Do(t, m, redistest.SetUser("app", rules...)...)
	host, port, _ := strings.Cut(m.Addr(), ":")
	testkit.Do(t, replica, "REPLICAOF", host, port)
	clitest.Eventually(t, "a replica", func() bool { return testkit.Info(t, replica, "replication", "master_link_status") == "up" })
	clitest.Eventually(t, "its acknowledgment", func() bool { return fmt.Sprint(testkit.Do(t, m, "WAIT", 1, 1000)) == "1" })
	testkit.Do(t, m, "CONFIG", "RESETSTAT")
	unsealed := "redis://app:change-me-app@" + m.Addr() + cmp.Or(prefix, "?")
	url := unsealed + "&failover=1"
	clitest.Command(t, cli.ExitOK, "admit", "-yes", url)
	printed, _ := clitest.Command(t, cli.ExitOK, "check", "-name", "probe", url)
	clitest.Contains(t, printed, " master+1 ")
	printed, _ = clitest.Command(t, cli.ExitOK, "members", "show", url)
	clitest.Contains(t, printed, m.Addr()+prefix+": replicas that acknowledge each lock: 1\n")
	_, errs := clitest.Command(t, cli.ExitFailed, "members", "show", unsealed)
	clitest.Contains(t, errs, "the number of replicas differs: the deployment's is 1, this client's 0 (node.WithFailover, ?failover=... in the URL)")
	return m
}

// doEverything does as that user what a program that locks, and an operator, can do. The fourth master is no member.
func doEverything(t *testing.T, d *clitest.Deployment, urls []string, prefix string) {
	const lease = "-max-lease=10s"
	command := func(line string, urls ...string) {
		t.Helper()
		clitest.Command(t, cli.ExitOK, append(strings.Fields(line), urls...)...)
	}
	command("admit -yes "+lease, urls[:3]...)
	open := func(options ...quorum.Option) *quorum.Locker {
		l := testkit.Opened(redlock.Open(urls[:3], append(options, quorum.WithLease(9*time.Second), quorum.WithLabel("rights"),
			quorum.WithLogger(masters.Silent),
			quorum.WithNodeOptions(node.WithMaxLease(d.MaxLease), node.WithTimeout(5*time.Second)))...))(t)
		return l
	}
	one, other := open(), open()
	ctx := t.Context()
	got := func(l *quorum.Lock, err error) *quorum.Lock {
		t.Helper()
		testkit.Must(t, err)
		return l
	}
	testkit.Must(t, one.Ready(ctx))

	// Locks: one, several, many at once, of a waiter, handed over, forced, forgotten by a master.
	held := got(one.Lock(ctx, "a", "b"))
	inner := got(one.Lock(held.Context(), "a"))
	testkit.Must(t, inner.Unlock(ctx))
	testkit.Must(t, held.Extend(ctx, 10*time.Second))
	clitest.Eventually(t, "the holder's name", func() bool {
		_, err := other.TryLock(ctx, "a")
		testkit.Check(t, errors.Is(err, quorum.ErrHeld), "of a lock that is held: %v", err)
		return strings.Contains(err.Error(), "held by rights on ")
	})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		next, err := other.Lock(ctx, "a")
		if err == nil {
			err = next.Unlock(ctx)
		}
		testkit.Is(t, err, nil, "of a waiter")
	})
	clitest.Eventually(t, "a waiter that listens", func() bool {
		listens, err := redis.Values(d.Masters[0].Do("PUBSUB", "NUMSUB", scripts.MemberPrefix(prefix)+scripts.ChannelPrefix+"{a}"))
		return err == nil && len(listens) == 2 && listens[1] == any(int64(1))
	})
	testkit.Must(t, held.Unlock(ctx))
	waiting.Wait()
	for i := range 32 {
		waiting.Go(func() {
			testkit.Is(t, one.Do(ctx, func(context.Context, *quorum.Lock) error { return nil }, fmt.Sprint("many ", i)), nil, "many locks")
		})
	}
	waiting.Wait()
	ticket := testkit.Got(got(one.Lock(ctx, "a")).HandOver(ctx))(t)
	testkit.Must(t, got(other.TakeOver(ctx, ticket)).Unlock(ctx))
	held = got(one.Lock(ctx, "a"))
	testkit.Must(t, operator.ForceUnlockOwner(ctx, other, held.Owner(), "a"))
	got(one.Lock(ctx, "forced"))
	testkit.Must(t, operator.ForceUnlock(ctx, other, "forced"))

	// Readers and a writer.
	rw, rival := one.RWLock("rw"), other.RWLock("rw")
	reader, another := got(rw.RLock(ctx)), got(rival.RLock(ctx))
	waiting.Go(func() {
		writer, err := rival.Lock(ctx)
		if err == nil {
			err = writer.Downgrade(ctx)
		}
		if err == nil {
			err = writer.Unlock(ctx)
		}
		testkit.Is(t, err, nil, "of a writer")
	})
	clitest.Eventually(t, "a writer that waits", func() bool {
		state, err := operator.Inspect(ctx, one, "rw")
		return err == nil && state.WriterWaits
	})
	testkit.Must(t, another.Unlock(ctx))
	testkit.Must(t, reader.Unlock(ctx))
	waiting.Wait()
	got(rw.RLock(ctx))
	testkit.Must(t, operator.ForceUnlock(ctx, one, "rw"))

	// Slots.
	slots := semaphore.New(one, "s", 3)
	held = got(slots.Acquire(ctx, 2))
	slot := got(slots.TryAcquire(ctx))
	testkit.Is(t, testkit.ErrorOf(slots.TryAcquire(ctx)), quorum.ErrHeld, "of slots that are taken")
	testkit.Got(operator.InspectSlots(ctx, slots))(t)
	testkit.Must(t, operator.ForceUnlockOwnerSlots(ctx, slots, slot.Owner(), slot.Slots()[0]))
	testkit.Must(t, held.Unlock(ctx))

	// The commands.
	file := filepath.Join(t.TempDir(), "urls")
	testkit.Must(t, os.WriteFile(file, []byte(strings.Join(urls[:3], "\n")), 0o600))
	d.Run(t, cli.ExitOK, "-urls-file", file, "-n", "-lease", "6s", "job", "--", "sleep", "2.5")
	d.Run(t, cli.ExitOK, "-urls-file", file, "-slots", "2", "jobs", "--", "true")
	got(one.Lock(ctx, "shown"))
	command("check -name probe "+lease, urls[:3]...)
	command("check -json -wait-all 1m " + lease + " -urls-file " + file)
	command("status -timeout 5s " + lease + " -urls-file " + file + " shown")
	command("top -timeout 5s " + lease + " -urls-file " + file)
	command("unlock -yes -timeout 5s " + lease + " -urls-file " + file + " shown")
	testkit.Must(t, one.Close())
	testkit.Must(t, other.Close())
	command("members show "+lease, urls[:3]...)
	command("members add -wait 1m "+lease, append(urls[3:], urls[:3]...)...)
	command("members abort "+lease, urls...)
	command("members add -wait 1m "+lease, append(urls[3:], urls[:3]...)...)
	command("members commit -yes "+lease, urls...)
	command("members remove -wait 1m "+lease+" d"+prefix, urls...)
	command("admit -yes -members "+lease, urls[:3]...)
}

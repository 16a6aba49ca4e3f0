//go:build unix

package command_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/standin"
	"github.com/quorumlock/quorumlock/scripts"
)

// masters NAME... [-- SERVER-ARGS...]: they are blank. $NAME is the URL of each, with its name, $NAME_addr its host:port,
// $NAME_port its port. QUORUMLOCK_URLS and the file urls have all URLs of the last such line.
func (w *world) startMasters(args []string) {
	names, server := args, []string(nil)
	if at := slices.Index(args, "--"); at >= 0 {
		names, server = args[:at], args[at+1:]
	}
	fleet, err := redistest.StartReal(len(names), server...)
	if errors.Is(err, redistest.ErrNoServer) {
		w.t.Skip("SKIPPED, needs real servers: ", err)
	}
	w.Check(err)
	w.add(names, fleet)
}

// standins NAME...: as deploy, inside the test's process, without a server. They cannot be frozen.
func (w *world) startStandins(args []string) {
	fleet, err := standin.Start(len(args))
	w.Check(err)
	w.add(args, fleet)
	w.admit()
}

func (w *world) add(names []string, fleet *redistest.Fleet) {
	w.Defer(func() {
		if err := fleet.Stop(); err != nil {
			w.t.Error(err)
		}
	})
	var urls []string
	for i, name := range names {
		w.masters[name] = fleet.Masters[i]
		urls = append(urls, fleet.Masters[i].URL()+"?name="+name)
		w.Setenv(name, urls[i])
		w.Setenv(name+"_addr", fleet.Masters[i].Addr())
		w.Setenv(name+"_port", strings.TrimPrefix(fleet.Masters[i].Addr(), "127.0.0.1:"))
	}
	w.Setenv("QUORUMLOCK_URLS", strings.Join(urls, ","))
	w.Check(os.WriteFile(w.MkAbs("urls"), []byte(strings.Join(urls, "\n")+"\n"), 0o600))
}

// deploy NAME...: masters that grant.
func (w *world) deploy(args []string) {
	w.startMasters(args)
	w.admit()
}

func (w *world) admit() {
	w.quorumlock([]string{"admit", "-yes", "-urls-file", "urls"})
	w.quorumlock([]string{"run", "first", "--", "true"}) // after a quarantine if the word was too old
}

// listed NAME...: masters that grant to clients with the list of all of them.
func (w *world) listed(args []string) {
	w.startMasters(args)
	w.quorumlock([]string{"admit", "-yes", "-members", "-urls-file", "urls"})
}

// on returns the masters of names that commas separate.
func (w *world) on(names ...string) (all []*redistest.Master) {
	for name := range strings.SplitSeq(strings.Join(names, ","), ",") {
		if w.masters[name] == nil {
			w.Fatalf("no master %q", name)
		}
		all = append(all, w.masters[name])
	}
	return all
}

// crash, start, freeze and thaw NAME...: processes end, begin again without data, stand still, and go on.
func each(do func(*redistest.Master) error) verb {
	return func(w *world, args []string) {
		for _, m := range w.on(args...) {
			w.Check(do(m))
		}
	}
}

// asked NAME...: somebody writes each name into the file asked, and waits until it is gone: the master is restarted.
func (w *world) asked(args []string) {
	for _, name := range args {
		file, m := w.MkAbs("asked"), w.on(name)[0]
		if !poll.Until(bound, func() bool {
			text, _ := os.ReadFile(file)
			return string(text) == name+"\n"
		}) {
			w.Fatalf("nobody asks for %s", name)
		}
		w.Check(errors.Join(m.Kill(), m.Start(), os.Remove(file)))
	}
}

// redis NAME,... COMMAND...: stdout has the replies, one in a line.
func (w *world) redis(args []string) {
	for _, m := range w.on(args[0]) {
		reply, err := m.Do(anys(args[1:])...)
		w.Check(err)
		fmt.Fprint(w.Stdout(), lower(reply))
	}
}

// anys is for a command: without the rules for channels if the servers know none.
func anys(words []string) (all []any) {
	if words[0] == "ACL" && words[1] == "SETUSER" {
		return redistest.SetUser(words[2], words[3:]...)
	}
	for _, word := range words {
		all = append(all, word)
	}
	return all
}

// await PATTERN NAME COMMAND...: as redis, again and again until the reply matches.
func (w *world) await(args []string) {
	pattern, m := regexp.MustCompile(args[0]), w.on(args[1])[0]
	if !poll.Until(bound, func() bool {
		reply, err := m.Do(anys(args[2:])...)
		w.Check(err)
		return pattern.MatchString(lower(reply))
	}) {
		w.Fatalf("waited %v", bound)
	}
}

// marker NAME,... [claimed] [run=ID] [max=6s] [change=1h] [quarantine=1h] MEMBERS [NEXT]: the masters are marked for the
// list, as if long ago. change is how long from now the members may change again, quarantine when they grant. A list has
// its names between commas.
func (w *world) marker(args []string) {
	for _, name := range strings.Split(args[0], ",") {
		m := w.on(name)[0]
		info, err := m.Do("INFO", "server")
		w.Check(err)
		_, id, _ := strings.Cut(fmt.Sprintf("%s", info), "run_id:")
		marker := scripts.Marker{Process: scripts.Process{Run: id[:40], MaxLease: 6 * time.Second, Member: name}, Generation: 1}
		var lists []*scripts.List
		for _, arg := range args[1:] {
			switch key, value, _ := strings.Cut(arg, "="); key {
			case "claimed":
				marker.Claimed = true
			case "run":
				marker.Run = value
			case "member":
				marker.Member = value
			case "max":
				marker.MaxLease, err = time.ParseDuration(value)
			case "change":
				marker.Change, err = fromNow(value)
			case "quarantine":
				marker.Admitted, err = fromNow(value)
			default:
				lists = append(lists, scripts.NewList(strings.Split(arg, ",")...))
			}
			w.Check(err)
		}
		marker.Members, marker.Next = lists[0], append(lists, scripts.NewList())[1]
		_, err = m.Do("SET", scripts.MarkerKey, marker.String())
		w.Check(err)
	}
}

// fromNow returns what a clock shows that long from now.
func fromNow(d string) (time.Duration, error) {
	left, err := time.ParseDuration(d)
	return time.Duration(time.Now().UnixNano()).Truncate(time.Millisecond) + left, err
}

// tls: a master that asks its clients for a certificate. $tls is host:port with TLS, $plain without; ca.pem, cert.pem and
// key.pem are in the directory certificates.
func (w *world) tls(_ []string) {
	authority, err := redistest.NewAuthority()
	w.Check(err)
	dir := w.MkAbs("certificates")
	w.Check(os.Mkdir(dir, 0o700))
	w.Check(errors.Join(authority.Issue(dir, "localhost"), redistest.WriteRoots(dir, authority)))
	fleet, port, err := redistest.StartTLS(dir)
	w.Check(err)
	w.add([]string{filepath.Base(dir)}, fleet)
	w.Setenv("tls", "localhost:"+port)
	w.Setenv("plain", fleet.Masters[0].Addr())
}

// clock NAME OFFSET RATE: a stand-in whose clock is ahead, and runs at that rate.
func (w *world) clock(args []string) {
	offset, err := time.ParseDuration(args[1])
	w.Check(err)
	var rate float64
	_, err = fmt.Sscan(args[2], &rate)
	w.Check(err)
	began := time.Now()
	now := func() time.Time { return began.Add(offset + time.Duration(float64(time.Since(began))*rate)) }
	fleet, err := standin.WithClock(1, now)
	w.Check(err)
	w.add(args[:1], fleet)
}

// Package redistest starts and ends independent Redis masters: redis-server processes if redis-server is on PATH or named
// by REDIS_SERVER, or servers inside this process (package standin). Tests and the demo run the lock library against them.
//
// The package signals only processes that it started. On Linux these die with this process, however
// it ends. Elsewhere a killed process leaves them behind.
package redistest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Fleet is a set of independent masters. Its methods are safe for concurrent use. Its fields must
// not be changed.
type Fleet struct {
	Masters []*Master
	Kind    string // "redis-server 7.0.15 processes", "valkey-server 8.0.1 processes" or "embedded stand-ins"

	starter *starter // nil when embedded
}

// StartReal starts n processes of the server that [FindBinary] finds, each on a free port of
// 127.0.0.1 and in a temporary directory of its own, and returns when all answer PING. They keep
// nothing on disk unless args say otherwise ("--appendonly", "yes"): args come last on each command
// line and so override the package's settings. Only a configuration file, without "-", comes first.
//
// On failure nothing is left running. The error wraps [ErrNoServer] when there is no server. For
// one that did not start it ends with the server's last output.
func StartReal(n int, args ...string) (*Fleet, error) {
	return StartRealWith(nil, n, args...)
}

// StartRealWith is [StartReal] with variables ("NAME=value") added to the processes' environment.
func StartRealWith(env []string, n int, args ...string) (*Fleet, error) {
	binary, err := FindBinary()
	if err != nil {
		return nil, err
	}
	fleet := &Fleet{Kind: binary.String() + " processes", starter: newStarter()}
	return fleet.start(n, func(addr string) (server, error) {
		return newProcess(binary.Path, addr, args, env, fleet.starter)
	})
}

// StartEmbedded starts n masters inside this process, each of whose lives is a fresh server. They cannot be frozen.
func StartEmbedded(n int, fresh func() Embedded) (*Fleet, error) {
	fleet := &Fleet{Kind: "embedded stand-ins"}
	return fleet.start(n, func(addr string) (server, error) {
		return &embedded{addr: addr, fresh: fresh}, nil
	})
}

// start fills an empty fleet with n masters made by fresh. On failure it stops the fleet.
func (f *Fleet) start(n int, fresh func(addr string) (server, error)) (*Fleet, error) {
	if n < 1 {
		return nil, errors.Join(fmt.Errorf("redistest: start %d masters: want at least 1", n), f.Stop())
	}
	f.Masters = make([]*Master, n)
	errs := make([]error, n)
	var starting sync.WaitGroup
	for i := range n {
		starting.Go(func() { f.Masters[i], errs[i] = newMaster(fresh) })
	}
	starting.Wait()

	if err := errors.Join(errs...); err != nil {
		f.Masters = slices.DeleteFunc(f.Masters, func(m *Master) bool { return m == nil })
		return nil, errors.Join(err, f.Stop())
	}
	return f, nil
}

// URLs returns the redis:// URL of each master, in the order of Masters.
func (f *Fleet) URLs() []string {
	urls := make([]string, len(f.Masters))
	for i, m := range f.Masters {
		urls[i] = m.URL()
	}
	return urls
}

// Stop stops every master, also killed and frozen ones, and returns their joined errors. A second
// call returns nil.
func (f *Fleet) Stop() error {
	var errs []error
	for _, m := range f.Masters {
		errs = append(errs, m.Stop())
	}
	// Last: the children die with the starter's thread.
	if f.starter != nil {
		f.starter.stop()
	}
	return errors.Join(errs...)
}

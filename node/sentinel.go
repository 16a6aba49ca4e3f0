package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/internal/redisconn"
)

// sentinels say where a master is. They are asked for each connection.
type sentinels struct {
	addresses          []string
	master             string // Sentinel's name of it
	username, password string // for the sentinels
	first              atomic.Int32
}

// maxQuick is how long all sentinels together may take at first.
const maxQuick = time.Second

// wrongSentinel is an answer that does not pass by itself.
type wrongSentinel string

func (e wrongSentinel) Error() string        { return string(e) }
func (e wrongSentinel) Is(target error) bool { return target == ErrInvalid }

var (
	errNotAsked = errors.New("not asked in time")
	// errDemoted is not ErrReplica, which does not pass by itself: sentinels learn of a failover one after another.
	errDemoted = errors.New("it is a replica")
)

// dialNamed connects to the master that a sentinel names. If that is no master, or refuses, the next sentinel is asked: this one
// may be cut off from the others. One that is slow is asked again after the others, for longer, so that a first call
// does not wait for one that stands still. A master that has another number of replicas than it should is used if no
// sentinel names another: it may be the one of before a failover, alone.
func (s *server) dialNamed(ctx context.Context, to dial) (redis.Conn, error) {
	all := s.sentinels
	n := len(all.addresses)
	next := func(i int) int32 { return int32(i+1) % int32(n) }
	var kept spare
	defer kept.close()
	begin := int(all.first.Load())
	reasons := slices.Repeat([]error{errNotAsked}, n)
	masters := map[string]error{} // why those that were named are none
	for _, quick := range []bool{true, false} {
		for k := range n {
			i := (begin + k) % n
			if !quick && (kept.isAgreed || !errors.Is(reasons[i], ErrTimeout)) {
				continue
			}
			deadline, _ := ctx.Deadline()
			share := time.Until(deadline) / time.Duration(n-k+1) // one is left for the master
			if quick {
				share = min(share, min(s.opts.timeout, maxQuick)/time.Duration(n+1))
			}
			address, err := s.askSentinel(ctx, all.addresses[i], share)
			if err != nil {
				reasons[i] = err
				continue
			}
			kept.isAgreed = kept.isAgreed || address == kept.address
			if masters[address] == nil {
				all.first.Store(next(i)) // for the next connection, should this one take the time that is left
				c, hasReplicas, err := s.onMaster(ctx, address, to, kept.conn != nil)
				switch {
				case hasReplicas:
					all.first.Store(int32(i))
					return c, nil
				case err != nil:
				case kept.conn == nil:
					kept.conn, kept.address, kept.next = c, address, next(i)
				default:
					kill(c)
				}
				masters[address] = fmt.Errorf("names %s: %w", address, cmp.Or(err, redisconn.ErrNotReplicated))
			}
			reasons[i] = masters[address]
			if ctx.Err() != nil {
				return kept.or(all, reasons, masters)
			}
		}
	}
	return kept.or(all, reasons, masters)
}

// spare is a connection to a master that has another number of replicas than it should.
type spare struct {
	conn     redis.Conn // nil for none
	address  string
	isAgreed bool  // another sentinel names it: one that is slow is not waited for
	next     int32 // the sentinel that is asked first for the next connection
}

// or returns the spare connection, whose handshake says what is missing, or else the error of all reasons.
func (p *spare) or(s *sentinels, reasons []error, masters map[string]error) (c redis.Conn, err error) {
	if p.conn == nil {
		return nil, s.notFound(reasons, masters)
	}
	s.first.Store(p.next)
	c, p.conn = p.conn, nil
	return c, nil
}

func (p *spare) close() {
	if p.conn != nil {
		kill(p.conn)
	}
}

func kill(c redis.Conn) {
	redisconn.Kill(c)
	c.Close()
}

// onMaster connects to a server that says it is a master, and whether all of its replicas are there. Its handshake asks
// again: a server may say more then. One that is compared with a spare must not take the time of both.
func (s *server) onMaster(ctx context.Context, address string, to dial, hasSpare bool) (c redis.Conn, hasReplicas bool, err error) {
	bounded := ctx
	if hasSpare {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, min(s.opts.timeout, maxQuick))
		defer cancel()
	}
	c, err = to(bounded, s.endpoint.at(address))
	if err != nil {
		return nil, false, redisconn.TimedOut(err, redisconn.ConnectTimeout(s.opts.timeout))
	}
	replies, errs := redisconn.RoundTrip(bounded, c, s.opts.timeout, []any{"INFO", "replication"})
	info := redisconn.ReadInfo(replies[0])
	if err = errs[0]; info["role"] == "slave" {
		err = errDemoted
	}
	if err != nil {
		kill(c)
		return nil, false, err
	}
	return c, info.Number("connected_slaves") == uint64(s.opts.failover), nil
}

// askSentinel returns the address that a sentinel names.
func (s *server) askSentinel(ctx context.Context, sentinel string, bound time.Duration) (address string, err error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	raw, err := s.opts.dial(ctx, s.endpoint.at(sentinel))
	if err != nil {
		return "", late(ctx, err)
	}
	defer raw.Close()
	redisconn.Dialed(ctx, raw)
	commands := authenticated(s.sentinels.username, s.sentinels.password, [][]any{{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.sentinels.master}})
	replies, errs := redisconn.RoundTrip(ctx, redis.NewConn(raw, bound, bound), bound, commands...)
	reply, err := replies[len(replies)-1], cmp.Or(errs...)
	at, _ := redis.Strings(reply, nil)
	switch {
	case redisconn.HasCode(err, "ERR unknown command"):
		return "", wrongSentinel("is no sentinel, but another server")
	case err != nil:
		return "", late(ctx, err)
	case reply == nil:
		return "", wrongSentinel(fmt.Sprintf("knows no master %q", s.sentinels.master))
	case len(at) != 2 || at[0] == "": // an empty host is this one
		return "", wrongSentinel("names no address")
	}
	return net.JoinHostPort(at[0], at[1]), nil
}

// late returns ErrTimeout for what failed because its time was over, without the time: all sentinels that are slow say the same.
func late(ctx context.Context, err error) error {
	_, isLookup := errors.AsType[*net.DNSError](err)
	switch {
	case !errors.Is(ctx.Err(), context.DeadlineExceeded) && !errors.Is(err, ErrTimeout):
		return err
	case isLookup: // the name service is slow
		return fmt.Errorf("%w looking up its name", ErrTimeout)
	}
	return ErrTimeout
}

// notFound has each sentinel's reason, those of one reason together.
type notFound struct {
	text  string
	wraps []error
}

func (e *notFound) Error() string        { return e.text }
func (e *notFound) Unwrap() []error      { return e.wraps }
func (e *notFound) Is(target error) bool { return target == redisconn.ErrNoMaster }

// notFound returns an error that wraps why the servers that were named are no masters, or else the sentinels' own reasons:
// those that pass by themselves, if there are any.
func (s *sentinels) notFound(reasons []error, masters map[string]error) error {
	e := &notFound{wraps: slices.Collect(maps.Values(masters))}
	if len(e.wraps) == 0 {
		lasts := func(err error) bool { return (&Error{Err: err}).Permanent() }
		if e.wraps = slices.DeleteFunc(slices.Clone(reasons), lasts); len(e.wraps) == 0 {
			e.wraps = reasons
		}
	}
	var all plain.Grouped
	for i, err := range reasons {
		all.Add(s.addresses[i], err.Error())
	}
	var texts []string
	for _, of := range all {
		texts = append(texts, fmt.Sprintf("sentinel %s: %s", of, of.Reason))
	}
	e.text = strings.Join(texts, "; ")
	return e
}

// withOneHost returns a URL with that scheme and the first host, and all hosts. net/url takes no list.
func withOneHost(scheme, rest string) (string, []string) {
	authority := rest[:strings.IndexAny(rest+"/", "/?#")]
	user := authority[:strings.LastIndex(authority, "@")+1]
	hosts := strings.Split(authority[len(user):], ",")
	return scheme + "://" + user + hosts[0] + rest[len(authority):], hosts
}

// parseSentinels reads the path of a URL of Sentinel, and its hosts.
func parseSentinels(of *url.URL, hosts []string) (*sentinels, error) {
	s := &sentinels{master: strings.TrimPrefix(of.Path, "/")}
	if s.master == "" || strings.Contains(strings.TrimPrefix(of.EscapedPath(), "/"), "/") {
		return nil, invalidf("the path of a URL of Sentinel is its name of the master alone, as in " +
			"redis+sentinel://host:26379/mymaster?failover=1; a database is ?db=N")
	}
	for _, host := range hosts {
		u, err := url.Parse("redis://" + host)
		if err != nil {
			return nil, invalidf("a host of the URL cannot be parsed (its port must be a number)")
		}
		_, address, err := hostPort(u, sentinelPort)
		if err != nil {
			return nil, err
		}
		s.addresses = append(s.addresses, address)
	}
	return s, nil
}

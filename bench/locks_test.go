package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	syncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
	_ "github.com/lib/pq"
	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/sqlserver"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/scripts"
)

// side is what takes a turn. The table of them is the one place that a new rival needs, alongside the columns of report.go.
type side struct {
	name     string
	contends bool // it waits for locks, too
	checked  bool // a budget needs it
	open     func(urls []string, contended bool) (opened, error)
}

var sides = []side{
	{ours, true, true, openOurs},
	{redsyncs, true, true, openRedsync},
	{redsyncDefaults, false, true, func(urls []string, _ bool) (opened, error) { return openRedsync(urls, true) }},
	{noOp, false, true, openNoOp},
	{oneMaster, false, false, openRedislock},
	{etcds, true, false, openEtcd},
	{postgres, false, false, openPostgres},
}

// opened locks for one process. It is safe for concurrent use.
type opened struct {
	lock  func(ctx context.Context, name string) (unlocker, error)
	close func() error
}

type unlocker interface{ Unlock(context.Context) error }

type unlock func(context.Context) error

func (u unlock) Unlock(ctx context.Context) error { return u(ctx) }

// timeout bounds dials and replies of all sides alike.
const timeout = node.DefaultTimeout

// maxConns is for each master: more than all callers need, with the stragglers that a fast answer of redsync leaves
// behind, so that no connection is made or closed during a measurement.
const maxConns = 512

var silent = slog.New(slog.DiscardHandler)

func openOurs(urls []string, _ bool) (opened, error) {
	// The masters were started just now: they hold no lock.
	l, err := redlock.Open(urls, quorum.WithNodeOptions(node.WithoutQuarantine()), quorum.WithLogger(silent))
	if err != nil {
		return opened{}, err
	}
	return lockerOpened(l), nil
}

func lockerOpened(l *quorum.Locker) opened {
	return opened{func(ctx context.Context, name string) (unlocker, error) { return l.Lock(ctx, name) }, l.Close}
}

// openRedsync has redsync's defaults for waiting. Without contention it has its fastest settings: one try, and an answer
// as soon as a majority has answered.
func openRedsync(urls []string, contended bool) (opened, error) {
	sync, closeAll := redsyncOver(urls)
	opts := []redsync.Option{redsync.WithTries(1), redsync.WithFailFast(true)}
	if contended {
		opts = nil
	}
	return opened{func(ctx context.Context, name string) (unlocker, error) {
		mutex := sync.NewMutex(name, opts...)
		err := mutex.LockContext(ctx)
		for contended && err != nil && ctx.Err() == nil { // it gives up after 32 tries
			err = mutex.LockContext(ctx)
		}
		return unlock(func(ctx context.Context) error {
			if unlocked, err := mutex.UnlockContext(ctx); !unlocked { // otherwise only a minority failed
				return errors.Join(errors.New("redsync: not unlocked by a majority"), err)
			}
			return nil
		}), err
	}, closeAll}, nil
}

func redsyncOver(urls []string) (sync *redsync.Redsync, closeAll func() error) {
	var pools []*redis.Pool
	var theirs []syncredis.Pool
	for _, url := range urls {
		pool := &redis.Pool{MaxIdle: maxConns, MaxActive: maxConns, DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialURLContext(ctx, url, redis.DialConnectTimeout(timeout), redis.DialReadTimeout(timeout),
				redis.DialWriteTimeout(timeout))
		}}
		pools, theirs = append(pools, pool), append(theirs, redigo.NewPool(pool))
	}
	return redsync.New(theirs...), func() (err error) {
		for _, pool := range pools {
			err = errors.Join(err, pool.Close())
		}
		return err
	}
}

// openRedislock uses the first master alone.
func openRedislock(urls []string, _ bool) (opened, error) {
	options, err := goredis.ParseURL(urls[0])
	if err != nil {
		return opened{}, err
	}
	options.PoolSize, options.DialTimeout, options.ReadTimeout, options.WriteTimeout = maxConns, timeout, timeout, timeout
	client := goredis.NewClient(options)
	locker := redislock.New(client)
	return opened{func(ctx context.Context, name string) (unlocker, error) {
		lock, err := locker.Obtain(ctx, name, quorum.DefaultLease, nil)
		return unlock(func(ctx context.Context) error { return lock.Release(ctx) }), err
	}, client.Close}, nil
}

// openEtcd shares one session between all mutexes. It is also their owner, so a process must not lock one name twice at
// once.
func openEtcd(endpoints []string, _ bool) (opened, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: startBound, Logger: zap.NewNop()})
	if err != nil {
		return opened{}, err
	}
	session, err := concurrency.NewSession(client, concurrency.WithTTL(int(quorum.DefaultLease/time.Second)))
	if err != nil {
		return opened{}, errors.Join(err, client.Close())
	}
	return opened{func(ctx context.Context, name string) (unlocker, error) {
		mutex := concurrency.NewMutex(session, name)
		return mutex, mutex.Lock(ctx)
	}, func() error { return errors.Join(session.Close(), client.Close()) }}, nil
}

// openPostgres takes a session lock of one server, by the name's hash, in a connection of its own: the server ends the
// lock with it.
func openPostgres(urls []string, _ bool) (opened, error) {
	db, err := sql.Open("postgres", urls[0])
	if err != nil {
		return opened{}, err
	}
	db.SetMaxIdleConns(maxConns)
	return opened{func(ctx context.Context, name string) (unlocker, error) {
		hash := fnv.New64a()
		io.WriteString(hash, name)
		number := int64(hash.Sum64())
		conn, err := db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		_, err = conn.ExecContext(ctx, fmt.Sprintf("SELECT pg_advisory_lock(%d)", number))
		return unlock(func(ctx context.Context) error {
			_, err := conn.ExecContext(ctx, fmt.Sprintf("SELECT pg_advisory_unlock(%d)", number))
			return errors.Join(err, conn.Close())
		}), err
	}, db.Close}, nil
}

// openNoOp is the least cost of a pair: two fan-outs of a script that reads and writes no key, over our own pipelines.
func openNoOp(urls []string, _ bool) (opened, error) {
	nothing := scripts.Raise(nil, scripts.NewOwner("bench", 1), 1) // a token written back for no names
	var nodes floor
	for _, url := range urls {
		n, err := node.Open(url, node.WithoutQuarantine(), node.WithLogger(silent))
		if err != nil {
			return opened{}, errors.Join(err, nodes.close())
		}
		nodes = append(nodes, n)
	}
	return opened{func(ctx context.Context, name string) (unlocker, error) {
		return unlock(func(ctx context.Context) error { return nodes.fanOut(ctx, name, nothing) }), nodes.fanOut(ctx, name, nothing)
	}, nodes.close}, nil
}

type floor []*node.Node

func (f floor) close() (err error) {
	for _, n := range f {
		err = errors.Join(err, n.Close())
	}
	return err
}

// fanOut returns when a majority has answered.
func (f floor) fanOut(ctx context.Context, key string, call scripts.Call) error {
	all := make(answers, len(f))
	for _, n := range f {
		if err := inside.Of(n).Pipe(key).Start(call, nil, all); err != nil {
			all <- err
		}
	}
	var failed []error
	for good := 0; good <= len(f)/2; {
		select {
		case err := <-all:
			if err == nil {
				good++
			} else if failed = append(failed, err); len(failed) > len(f)/2 {
				return errors.Join(failed...)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// answers takes one fan-out's answers.
type answers chan error

func (a answers) Done(r pipeline.Result) { a <- r.Err }

const startBound = time.Minute

// keep runs the members until its input ends, however this process does, and removes their data. In memory, where there
// is room for their logs, fsync costs nothing.
const keep = `
trap "" INT
[ "$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 {print $4}')" -gt 1000000 ] 2>/dev/null && TMPDIR=/dev/shm
dir=$(mktemp -d "${TMPDIR:-/tmp}/quorumlock-etcd-XXXXXX") || exit 1
for member in $members; do
	IFS=, read -r name client peer <<-END
		$member
	END
	etcd --name $name --data-dir "$dir/$name" --listen-client-urls $client --advertise-client-urls $client \
		--listen-peer-urls $peer --initial-advertise-peer-urls $peer --initial-cluster $cluster \
		--logger zap --log-level error >&2 &
	pids="$pids $!"
done
echo "$dir"
cat >/dev/null
kill -9 $pids
wait
rm -rf "$dir"`

// startPostgres starts a server, and returns its DSN, or none if there is no PostgreSQL. It ends with the benchmark.
func startPostgres(b *testing.B) (dsns []string) {
	runtime.LockOSThread() // the server ends with the thread that started it
	server := sqlserver.StartPostgres("postgres")
	b.Cleanup(func() { must(b, server.Stop()) })
	db := testkit.Opened(sql.Open("postgres", sqlserver.PostgresDSN(server.Dir, "")))(b)
	var version string
	if err := db.QueryRow("SHOW server_version").Scan(&version); err != nil {
		b.Logf("SKIPPED, needs PostgreSQL (make postgres): %v", server.Missing())
		return nil
	}
	number, _, _ := strings.Cut(version, " ")
	fmt.Printf("PostgreSQL: 1 PostgreSQL %s\n", number)
	return []string{sqlserver.PostgresDSN(server.Dir, "")}
}

// startEtcd starts three members, and returns their URLs, or none if there is no etcd.
func startEtcd(b *testing.B) (endpoints []string) {
	version, err := exec.Command("etcd", "--version").Output()
	if err != nil {
		b.Logf("SKIPPED, needs etcd (make etcd): %v", err)
		return nil
	}
	var members, cluster []string
	for i := range 3 {
		var urls [2]string
		for k := range urls {
			port, held, err := redistest.ClaimPort()
			must(b, err)
			b.Cleanup(func() { held.Close() })
			urls[k] = fmt.Sprintf("http://127.0.0.1:%d", port)
		}
		members = append(members, fmt.Sprintf("m%d,%s,%s", i, urls[0], urls[1]))
		cluster, endpoints = append(cluster, fmt.Sprintf("m%d=%s", i, urls[1])), append(endpoints, urls[0])
	}
	keeper := exec.Command("sh", "-c", keep)
	keeper.Env = append(keeper.Environ(), "members="+strings.Join(members, " "), "cluster="+strings.Join(cluster, ","),
		"ETCD_UNSUPPORTED_ARCH="+runtime.GOARCH)
	in, out := piped(b, keeper)
	b.Cleanup(func() { in.Close(); must(b, keeper.Wait()) })
	dir := testkit.Got(bufio.NewReader(out).ReadString('\n'))(b)
	first, _, _ := strings.Cut(strings.TrimPrefix(string(version), "etcd Version: "), "\n")
	fmt.Printf("etcd: 3 etcd %s processes, data in %s\n", first, filepath.Dir(dir))
	return endpoints
}

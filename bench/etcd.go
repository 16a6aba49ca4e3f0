package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/bench/internal/etcd"
	"github.com/quorumlock/quorumlock/bench/internal/handoff"
	"github.com/quorumlock/quorumlock/bench/internal/measure"
	"github.com/quorumlock/quorumlock/bench/internal/peers"
)

// besideEtcd runs do while a cluster of n members runs, or says why it is skipped. The cluster ends with the test:
// its members take processor time even when nobody asks them.
func (b *bench) besideEtcd(
	ctx context.Context, n int, do func(*etcd.Cluster) (*outcome, error),
) (o *outcome, err error) {
	cluster, err := etcd.Start(ctx, n)
	if errors.Is(err, etcd.ErrNone) {
		return &outcome{skipped: err.Error()}, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	if o, err = do(cluster); err == nil {
		b.etcd = fmt.Sprintf("%d etcd %s processes, %s", n, cluster.Version, cluster.Data)
	}
	return o, err
}

// etcdSide is a peer with the cluster that it uses.
type etcdSide struct {
	*peers.Etcd
	cluster *etcd.Cluster
}

// Usage has the members' processor time as that of the masters.
func (s etcdSide) Usage() (measure.Usage, error) { return usageOf(s.cluster) }

func usageOf(cluster *etcd.Cluster) (u measure.Usage, err error) {
	if u.Masters, err = cluster.CPU(); err != nil {
		return u, err
	}
	u.Callers, err = measure.OwnCPU()
	return u, err
}

// measureEtcdPairs is measurePairs beside etcd and beside a lock on one master.
func measureEtcdPairs(callers int) func(*bench, context.Context, int) (*outcome, error) {
	return func(b *bench, ctx context.Context, n int) (*outcome, error) {
		return b.besideEtcd(ctx, n, func(cluster *etcd.Cluster) (*outcome, error) {
			sides, err := openEtcdSides(b.urls(n), cluster)
			if err != nil {
				return nil, err
			}
			defer closeAll(sides)
			return b.pairs(ctx, sides, callers, b.rounds, b.some(n))
		})
	}
}

func openEtcdSides(urls []string, cluster *etcd.Cluster) ([]peers.Peer, error) {
	return openAll(
		func() (peers.Peer, error) { return peers.OpenLibrary(urls) },
		func() (peers.Peer, error) { return peers.OpenFastRedsync(urls), nil },
		func() (peers.Peer, error) { return peers.OpenRedislock(urls[0]) },
		func() (peers.Peer, error) {
			side, err := peers.OpenEtcd(cluster.Endpoints)
			return etcdSide{side, cluster}, err
		})
}

// measureEtcdHandoffs is measureHandoffs beside etcd.
func measureEtcdHandoffs(b *bench, ctx context.Context, n int) (*outcome, error) {
	return b.besideEtcd(ctx, n, func(cluster *etcd.Cluster) (*outcome, error) {
		names, plan := append(handoff.Peers[:len(handoff.Peers):len(handoff.Peers)], handoff.Etcd), crowdPlan(b.size)
		all, err := measure.Alternate(len(names), b.passes, func(side int) (r handoffRound, err error) {
			if names[side] == handoff.Etcd {
				r.Round, err = plan.RunOn(ctx, handoff.Etcd, cluster.Endpoints,
					func() (measure.Usage, error) { return usageOf(cluster) })
			} else {
				r.Round, err = plan.Run(ctx, names[side], b.some(n))
			}
			return r, err
		})
		if err != nil {
			return nil, err
		}
		o := outcomeOf(names, all, ofHandoffs)
		o.tellHandoffs(names, all)
		return o, nil
	})
}

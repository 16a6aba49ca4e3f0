package lockstate

import (
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts/operators"
)

func TestJudge(t *testing.T) {
	const s = time.Second
	free, gone, forgot := Master{}, Master{Err: errors.New("gone")}, Master{Quarantine: s}
	by := func(owner string, ttl time.Duration) Master {
		return Master{InspectReply: operators.InspectReply{Owner: owner, TTL: ttl}}
	}
	read := func(readers int, ttl time.Duration) Master {
		return Master{InspectReply: operators.InspectReply{Readers: readers, TTL: ttl}}
	}
	for _, test := range []struct {
		state   string
		ttl     time.Duration
		masters []Master
	}{
		{Free, 0, []Master{free, free, free}},
		{Free, 0, []Master{free, free, gone}},
		{Free, 0, []Master{free, free, forgot}},
		{Unknown, 0, []Master{free, gone, forgot}},
		{Free, 0, []Master{free, free, by("x", s)}},
		{Unknown, 0, []Master{free, gone, by("x", s)}},
		{Free, 0, []Master{free, by("y", s), by("x", s)}},
		{Unknown, 0, []Master{forgot, by("y", s), by("x", s)}},
		{Held, s, []Master{gone, by("x", 2*s), by("x", s)}},
		{Held, 2 * s, []Master{by("x", 3*s), by("x", 2*s), by("x", s)}},
		{Held, 3 * s, []Master{by("x", 3*s), by("x", Forever), by("x", s)}},
		{Held, Forever, []Master{by("x", Forever), by("x", Forever), by("x", s)}},
		{Held, s, []Master{by("x", s), by("x", s), by("y", 9*s)}},
		{Unknown, 0, []Master{gone}},
		{Held, s, []Master{read(2, 2*s), read(1, s), free}},
		{Held, s, []Master{read(2, 2*s), read(1, s), forgot}},
		{Free, 0, []Master{read(2, s), free, free}},
		{Unknown, 0, []Master{read(2, s), gone, free}},
		{Unknown, 0, []Master{read(2, s), by("x", s), gone}},
	} {
		lock := Judge("a", test.masters, quorate.Majority(len(test.masters)))
		testkit.Check(t, lock.State == test.state && lock.TTL == test.ttl,
			"%+v: %s, %v, want %s, %v", test.masters, lock.State, lock.TTL, test.state, test.ttl)
	}
}

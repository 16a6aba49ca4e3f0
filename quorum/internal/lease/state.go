package lease

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// Clone returns a copy that shares nothing but the terms. It is for searches of this package.
func (l *Lease) Clone() *Lease {
	copied := *l
	copied.votes = slices.Clone(l.votes)
	return &copied
}

// AppendKey appends what decides on the lease's future, in which all instants are relative to now
// and none is longer ago than horizon, past which it makes no difference. It is for searches of this
// package. process returns a name for each process that the caller may exchange for others.
func (l *Lease) AppendKey(b []byte, now clock.Instant, horizon time.Duration, process func(string) byte) []byte {
	instant := func(i clock.Instant) {
		ago := int64(-1 << 62)
		if i != clock.Never {
			ago = int64(max(i.Sub(now), -horizon))
		}
		b = binary.AppendVarint(b, ago)
	}
	probing := byte(0)
	if l.probing {
		probing = 1
	}
	b = append(b, byte(l.phase), byte(l.verdict), byte(l.cause), probing, l.asked, l.first, l.raises, byte(l.level))
	b = binary.AppendUvarint(b, l.token)
	for _, i := range []clock.Instant{l.begunAt, l.renewedAt, l.deadline, l.maxHoldEnd, l.next} {
		instant(i)
	}
	for i := range l.votes {
		v := &l.votes[i]
		instant(v.until)
		name := byte(0)
		if v.until != clock.Never {
			name = process(v.process)
		}
		b = append(b, name, byte(v.answer), v.order, byte(v.flags))
		b = binary.AppendUvarint(b, v.token)
	}
	return b
}

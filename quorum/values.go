package quorum

import (
	"fmt"
	"log/slog"
)

// String returns the names, the token and the owner's id: not whether the lock is still held, which
// [Lock.Err] tells.
func (l *Lock) String() string {
	return fmt.Sprintf("lock %s, token %d, owner %s", quoted(l.names), l.Token(), l.Owner())
}

// LogValue returns what String does, as attributes ([slog.LogValuer]).
func (l *Lock) LogValue() slog.Value {
	return slog.GroupValue(slog.Any("names", l.Names()), slog.Uint64("token", l.Token()), slog.String("owner", l.Owner()))
}

// MarshalText returns the word that String returns, for JSON and the like.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

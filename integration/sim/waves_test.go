package sim

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/scripts"
)

// waves finds out when each attempt asked which master, by what the clients write.
type waves struct {
	mu    sync.Mutex
	asked map[string]map[int]time.Time // for the first time, by owner and master
}

// acquires are the hashes of the scripts that grant.
var acquires = func() (hashes [][]byte) {
	for _, s := range scripts.All() {
		if s.Name() == "acquire" || s.Name() == "acquires" {
			sum := sha1.Sum([]byte(s.Source()))
			hashes = append(hashes, []byte(hex.EncodeToString(sum[:])))
		}
	}
	return hashes
}()

func isAcquire(request []byte) bool {
	return slices.ContainsFunc(acquires, func(hash []byte) bool { return bytes.Contains(request, hash) })
}

// owners yields the arguments that are owners: a UUID, a colon and a number.
func owners(request []byte) iter.Seq[string] {
	const uuid = len("00000000-0000-0000-0000-000000000000")
	return func(yield func(string) bool) {
		for line := range bytes.SplitSeq(request, []byte("\r\n")) {
			if len(line) > uuid && line[8] == '-' && line[uuid-13] == '-' && line[uuid] == ':' && !yield(string(line)) {
				return
			}
		}
	}
}

// note notes the requests for grants in what a client writes to a master.
func (w *waves) note(master int, written []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for request := range bytes.SplitSeq(written, []byte("\r\n*")) {
		if !isAcquire(request) {
			continue
		}
		for owner := range owners(request) {
			if w.asked[owner] == nil {
				w.asked[owner] = map[int]time.Time{}
			}
			if w.asked[owner][master].IsZero() {
				w.asked[owner][master] = time.Now()
			}
		}
	}
}

// count returns how many attempts asked so many of five masters at one instant, and the others
// together at another one, at most 50 ms later: before any renewal. Nothing but a second wave asks
// two masters at one instant.
func (w *waves) count(first int) (count int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, asked := range w.asked {
		at := slices.SortedFunc(maps.Values(asked), time.Time.Compare)
		if len(at) == 5 && at[0] == at[first-1] && at[first] == at[4] && at[first].After(at[0]) &&
			at[4].Sub(at[0]) <= 50*time.Millisecond {
			count++
		}
	}
	return count
}

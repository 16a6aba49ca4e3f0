package fakeredis

import "strings"

// Holding is an owner at a key, as a writer or a reader.
type Holding struct{ Key, Owner string }

// Holdings returns all that are held.
func (m *Master) Holdings() (all []Holding) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.openLocked()
	for _, key := range k.names("*") {
		for owner := range k.Fields(key) {
			all = append(all, Holding{key, owner})
		}
		for member := range k.Scores(key) {
			if owner, isReader := strings.CutPrefix(member, readerPrefix); isReader && k.Reads(key, owner) {
				all = append(all, Holding{key, owner})
			}
		}
	}
	return all
}

// Take puts another owner in place of one at the keys, and keeps the leases: no key is free in
// between. It returns at how many keys it found the owner, as a writer or a reader.
func (m *Master) Take(keys []string, owner, other string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, taken := m.openLocked(), 0
	for _, key := range keys {
		v := k.find(key)
		if v == nil {
			continue
		}
		if ends, reads := v.scores[readerPrefix+owner]; reads {
			delete(v.scores, readerPrefix+owner)
			v.scores[readerPrefix+other] = ends
			taken++
		}
		if _, writes := v.hash[owner]; writes {
			delete(v.hash, owner)
			v.hash[other] = "1"
			taken++
		}
	}
	return taken
}

// Free takes an owner out at the keys, and wakes those who wait for a key that becomes free. marker is the key of the
// deployment's marker.
func (m *Master) Free(keys []string, owner, marker string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.openLocked()
	for _, key := range keys {
		v := k.find(key)
		if v == nil {
			continue
		}
		delete(v.hash, owner)
		delete(v.scores, readerPrefix+owner)
		if len(v.hash)+len(v.scores) == 0 && (v.kind == aHash || v.kind == aSet) {
			k.Delete(key)
			m.publishLocked(channelAt(marker, key), "0")
		}
	}
}

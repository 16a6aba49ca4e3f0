package membership

import "github.com/quorumlock/quorumlock/internal/membership/change"

// Tokens are of one name, and don't depend on its clients' clocks. A client gets votes from a
// majority of its list, each of which counts up, takes the highest count as its token, and writes it
// back to those that are lower. Most do so in one step. One at a time takes long, at most a lease.

// pass has a command read the counters of as few masters as it takes, or raise them there.
func (w *world) pass(i int, next *step, try *trial) {
	eachSubset(next.list, next.least, func(mask uint8) {
		if next.do == change.ReadTokens {
			try.after(event{reads, uint8(i), 0, mask}, func(s *state) {
				o := &s.ops[i]
				o.rest = next.yes
				for n := range maxNodes {
					if mask&(1<<n) != 0 {
						o.token = max(o.token, s.nodes[n].counter)
					}
				}
				s.tidy(i)
			})
			return
		}
		try.after(event{raises, uint8(i), 0, mask}, func(s *state) {
			s.raise(mask, s.ops[i].token)
			s.ops[i] = op{rest: next.yes}
			s.tidy(i)
		})
	})
}

// issue has clients of each list lock.
func (w *world) issue(s *state, try *trial) {
	if int(s.issued) >= w.tokens {
		return
	}
	if a := s.attempt; a.list > 0 {
		try.after(event{does: commits}, func(s *state) {
			s.raise(a.votes, a.token)
			w.give(s, a.token)
			s.attempt = attempt{}
		})
	}
	for l, members := range w.lists {
		var free []int
		for _, n := range members {
			x := &s.nodes[n]
			if w.accepts(n, x.process, x.marker)[l] == grants && s.attempt.votes&(1<<n) == 0 {
				free = append(free, n)
			}
		}
		eachSubset(free, len(members)/2+1, func(mask uint8) {
			try.after(event{issues, uint8(l), 0, mask}, func(s *state) {
				token := w.count(s, mask)
				s.raise(mask, token)
				w.give(s, token)
			})
			if s.attempt.list == 0 {
				try.after(event{votes, uint8(l), 0, mask}, func(s *state) {
					s.attempt = attempt{list: uint8(l + 1), votes: mask, token: w.count(s, mask)}
				})
			}
		})
	}
}

// raise raises the masters' counters to a token.
func (s *state) raise(mask, token uint8) {
	for n := range maxNodes {
		if mask&(1<<n) != 0 {
			s.nodes[n].counter = max(s.nodes[n].counter, token)
		}
	}
}

// count has masters count up, and returns the highest count.
func (w *world) count(s *state, mask uint8) (token uint8) {
	for n := range maxNodes {
		if mask&(1<<n) != 0 {
			s.nodes[n].counter++
			token = max(token, s.nodes[n].counter)
		}
	}
	return token
}

// repeated is the highest token of a state in which a token did not rise.
const repeated = 255

func (w *world) give(s *state, token uint8) {
	if s.issued++; token <= s.top {
		s.top = repeated
		return
	}
	s.top = token
}

// eachSubset calls use with each subset of that size.
func eachSubset(of []int, size int, use func(mask uint8)) {
	var choose func(i, size int, mask uint8)
	choose = func(i, size int, mask uint8) {
		switch {
		case size == 0:
			use(mask)
		case len(of)-i >= size:
			choose(i+1, size-1, mask|1<<of[i])
			choose(i+1, size, mask)
		}
	}
	choose(0, size, 0)
}

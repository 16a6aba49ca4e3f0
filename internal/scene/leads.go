package scene

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/leader"
)

// candidates take part in elections, by their process and the election.
type candidates struct {
	known map[string]*leader.Candidate
	terms map[string]*leader.Term
}

// candidate is the line's: its process in the election that it names.
func (p *play) candidate(l line) (c *leader.Candidate, name string) {
	p.t.Helper()
	name = strings.Join(l.words, " ")
	if c = p.elections.known[name]; c == nil {
		var opts []leader.Option
		if l.has("interval") {
			opts = append(opts, leader.WithObserveInterval(l.duration("interval", 0)))
		}
		var err error
		if c, err = leader.New(p.locker(l), l.words[1], opts...); err != nil {
			p.say(name, "%s: %s", name, p.failed(err))
			return nil, name
		}
		p.elections.known[name] = c
	}
	return c, name
}

// campaigns has a candidate campaign, and waits for its term, unless it does so in the background.
func (p *play) campaigns(l line) {
	p.t.Helper()
	c, name := p.candidate(l)
	if c == nil {
		return
	}
	p.calling(l, name, l.has("background"), func(ctx context.Context) (got string, err error) {
		term, err := c.Campaign(ctx)
		if err != nil {
			return "", err
		}
		p.mu.Lock()
		p.elections.terms[name] = term
		p.mu.Unlock()
		context.AfterFunc(term.Context(), func() {
			if cause := context.Cause(term.Context()); p.t.Context().Err() == nil {
				p.say(name+"~", "%s: the term's context ended: %s", name, p.failed(cause))
			}
		})
		return "leads, token " + p.token(term.Token()), nil
	})
}

// elect is for the commands of a candidate or of its term.
func (p *play) elect(l line) {
	p.t.Helper()
	c, name := p.candidate(l)
	if c == nil {
		return
	}
	ctx, cancel := p.context(l)
	defer cancel()
	began := time.Now()
	p.mu.Lock()
	term := p.elections.terms[name]
	p.mu.Unlock()
	switch l.cmd {
	case "resign":
		p.did(l.cmd, name, term.Resign(ctx), began)
	case "isleader":
		switch err := c.IsLeader(ctx); {
		case err == nil:
			p.say(name, "%s: leads as %s", name, c.ID())
		case c.ID() == "":
			p.say(name, "%s: %s", name, p.failed(err))
		default:
			p.say(name, "%s: %s, but has the term %s", name, p.failed(err), c.ID())
		}
	case "term":
		p.say(name, "%s: term %s, valid %v", name, term.ID(), term.Valid())
	case "leader":
		now, err := c.Leader(ctx)
		p.say(name, "%s: %s", name, p.leads(now, err))
	}
}

// leads says who leads.
func (p *play) leads(now leader.Leader, err error) string {
	switch {
	case err != nil:
		return p.failed(err)
	case now.ID == "":
		return "nobody leads"
	}
	return now.ID + " of " + now.Identity.String() + " leads"
}

// observes has a candidate say who leads whenever that changes, until it is cancelled.
func (p *play) observes(l line) {
	c, name := p.candidate(l)
	ctx, cancel := p.context(l)
	p.calls[name] = cancel
	go func() {
		for now, err := range c.Observe(ctx) {
			p.say(name, "%s: sees that %s", name, p.leads(now, err))
		}
		p.say(name, "%s: no longer looks", name)
	}()
}

// runs has a candidate run work while it leads. The work ends takes=3s after its context, or for=3s after its begin, with an
// error if it fails, or with its context's if it stops.
func (p *play) runs(l line) {
	c, name := p.candidate(l)
	ctx, cancel := p.context(l)
	p.calls[name] = cancel
	l.knows("for", "takes", "fails", "stops")
	work := func(ctx context.Context, term *leader.Term) error {
		p.say(name, "%s: works, token %s", name, p.token(term.Token()))
		if l.has("for") {
			time.Sleep(l.duration("for", 0))
		} else {
			<-ctx.Done()
			p.say(name, "%s: is to stop: %s", name, p.failed(context.Cause(ctx)))
		}
		if l.has("takes") {
			time.Sleep(l.duration("takes", 0))
		}
		p.say(name, "%s: ends its work, term valid %v", name, term.Valid())
		testkit.Check(p.t, ctx == term.Context(), "%s: the work's context is not the term's", name)
		switch {
		case l.has("fails"):
			return errors.New("the work's own error")
		case l.has("stops"):
			return ctx.Err()
		}
		return nil
	}
	go func() {
		if err := c.Run(ctx, work); err != nil {
			p.say(name, "%s: %s", name, p.failed(err))
			return
		}
		p.say(name, "%s: has run", name)
	}()
}

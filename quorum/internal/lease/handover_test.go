package lease

import (
	"fmt"
	"testing"
	"time"
)

// A lease that is handed over has ended for good, and emits no command: its keys are another owner's by
// now, and a release would free them, a request bring them back.
func TestALeaseThatIsHandedOverDoesNothing(t *testing.T) {
	b := held(t, Terms{MinHold: time.Minute})
	ask := b.sent[2]
	var handed bool
	handed, b.sent = b.HandOver(b.now, nil)
	b.want(fmt.Sprint("End ", HandedOver))
	if !handed || b.Valid(b.now) || !b.IsDone() || b.Cause() != HandedOver {
		t.Errorf("handed over %v, valid %v, done %v, cause %v", handed, b.Valid(b.now), b.IsDone(), b.Cause())
	}
	for what, event := range map[string]func(){
		"Renew":       func() { b.sent = b.Renew(b.now, nil) },
		"RenewAgain":  func() { _, goesOn := b.RenewAgain(b.now, ask); b.wantNot(goesOn) },
		"AskOthers":   func() { b.sent = b.AskOthers(nil) },
		"Submitted":   func() { _, goesOn := b.Submitted(ask); b.wantNot(goesOn) },
		"Due":         func() { var goesOn bool; goesOn, b.sent = b.Due(b.now, nil); b.wantNot(goesOn) },
		"Linger":      func() { linger(b) },
		"Unlock":      func() { b.sent = b.Unlock(b.now, nil) },
		"Orphan":      func() { b.sent = b.Orphan(nil) },
		"Interrupt":   func() { b.sent = b.Interrupt(nil) },
		"HandOver":    func() { handed, b.sent = b.HandOver(b.now, nil); b.wantNot(handed) },
		"a late vote": func() { b.answer(ask, Reply{Is: Granted, Process: "three", Token: 9}) },
	} {
		b.sent = nil
		if event(); len(b.sent) > 0 || b.Valid(b.now) || b.Token() != 7 {
			t.Errorf("%s: commands %v, valid %v, token %d", what, b.sent, b.Valid(b.now), b.Token())
		}
	}
}

func (b *bench) wantNot(goesOn bool) {
	b.Helper()
	if goesOn {
		b.Error("it goes on")
	}
}

// Only a valid lock can be handed over.
func TestHandOverOfALeaseThatIsOver(t *testing.T) {
	b := held(t, Terms{})
	b.now = b.Lease.Deadline()
	handed, sent := b.HandOver(b.now, nil)
	b.sent = sent
	b.want("")
	if handed || b.Phase() != Held {
		t.Errorf("handed over %v, phase %v", handed, b.Phase())
	}
}

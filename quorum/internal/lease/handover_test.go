package lease

import (
	"testing"
)

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

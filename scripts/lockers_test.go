package scripts_test

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
)

// A locker that may hold has written its identity a max lease and 15 s ago at most.
func TestWhichLockersMayHold(t *testing.T) {
	const maxLease = 30 * time.Second
	for left, want := range map[time.Duration]bool{75 * time.Second: true, 30 * time.Second: true, 29 * time.Second: false} {
		testkit.Equal(t, operators.Introduced{Left: left}.MayHold(maxLease), want, left)
	}
	testkit.Equal(t, operators.Introduced{Left: 70 * time.Second}.Age(maxLease), 5*time.Second, "its age")
}

const lockerKey = "quorumlock:locker:"

func TestLockerOf(t *testing.T) {
	for owner, locker := range map[string]string{"L:1": "L", "L:1:2": "L:1", ":7": "", "": "", "L": "L"} {
		testkit.Equal(t, scripts.LockerOf(owner), locker, owner)
	}
}

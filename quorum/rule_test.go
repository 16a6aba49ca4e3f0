package quorum

import (
	"errors"
	"testing"
)

func TestRules(t *testing.T) {
	for nodes := -1; nodes <= 9; nodes++ {
		need, err := All(nodes)
		if ok := nodes >= 1; ok != (err == nil) || ok && need != nodes || !ok && !errors.Is(err, ErrInvalid) {
			t.Errorf("All(%d) = %d, %v", nodes, need, err)
		}
		need, err = Majority(nodes)
		ok := nodes >= 1 && nodes%2 == 1
		if ok != (err == nil) || ok && need != nodes/2+1 || !ok && !errors.Is(err, ErrInvalid) {
			t.Errorf("Majority(%d) = %d, %v", nodes, need, err)
		}
	}
}

package node

import (
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

func TestWithHooksAdds(t *testing.T) {
	testkit.AddsHooks(t, func(all ...Hooks) Hooks {
		var o options
		for _, h := range all {
			WithHooks(h)(&o)
		}
		return o.hooks
	})
}

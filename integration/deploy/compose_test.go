package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos"
	"github.com/quorumlock/quorumlock/internal/backstage"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/redlock"
	"go.uber.org/goleak"
)

const (
	composeFile  = docs + "compose.yaml"
	composeBound = 2 * time.Minute // of one command
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recipe is the compose file with this run's image, ports and labels. The reaper of quorumchaos removes what has
// the label.
type recipe struct {
	files []string
	env   []string
	urls  []string
}

func newRecipe(t *testing.T, e *backstage.Backend) recipe {
	t.Helper()
	r := recipe{
		files: []string{"-f", composeFile, "-f", filepath.Join(t.TempDir(), "labels.yaml"), "-p", "quorumlock" + strings.ToLower(e.Run)},
		env:   append(os.Environ(), "REDIS_IMAGE="+e.Image),
	}
	labels := fmt.Sprintf("labels: {%s: %q}\n", backstage.Label, e.Run)
	override := "networks:\n  default:\n    " + labels + "services:\n"
	for _, letter := range []string{"a", "b", "c"} {
		port, held, err := redistest.ClaimPort()
		must(t, err)
		t.Cleanup(func() { held.Close() })
		r.env = append(r.env, fmt.Sprintf("PORT_%s=%d", strings.ToUpper(letter), port))
		r.urls = append(r.urls, fmt.Sprintf("redis://app:change-me-app@127.0.0.1:%d?name=dev-%s", port, letter))
		override += "  master-" + letter + ":\n    " + labels
	}
	must(t, os.WriteFile(r.files[3], []byte(override), 0o600))
	return r
}

// compose runs one command of docker-compose.
func (r recipe) compose(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), composeBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker-compose", append(r.files, args...)...)
	cmd.Env = r.env
	out, err := cmd.CombinedOutput()
	testkit.Require(t, err == nil, "%v: %v\n%s", args, err, out)
}

// The recipe works as its README says, with the user of few rights.
func TestTheComposeFile(t *testing.T) {
	if _, err := exec.LookPath("docker-compose"); err != nil {
		t.Skipf("SKIPPED, needs docker-compose: %v", err)
	}
	e, err := quorumchaos.Open("containers")
	if errors.Is(err, backstage.ErrNone) {
		t.Skipf("SKIPPED, needs a container engine: %v", err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, e.Close()) })
	r := newRecipe(t, inside.Of(e))
	t.Cleanup(func() { r.compose(t, "down", "--volumes", "--timeout", "1") })
	r.compose(t, "up", "-d")
	ctx := testkit.Within(t, composeBound)
	r.admit(ctx, t)

	locker := testkit.Opened(redlock.Open(r.urls))(t)
	lock := testkit.Got(locker.Lock(ctx, "invoice:42"))(t)

	r.compose(t, "kill", "master-b")
	other := testkit.Got(locker.Lock(ctx, "invoice:43"))(t)
	testkit.Check(t, lock.Valid(), "lost with a minority: %v", lock.Err())
	must(t, other.Unlock(ctx))
	must(t, lock.Unlock(ctx))
}

// admit does what quorumlock admit does, when the masters have started.
func (r recipe) admit(ctx context.Context, t *testing.T) {
	t.Helper()
	var nodes []*node.Node
	var names []string
	for _, url := range r.urls {
		n := testkit.Opened(node.Open(url, node.WithTimeout(5*time.Second)))(t)
		nodes, names = append(nodes, n), append(names, n.Name())
	}
	for _, n := range nodes {
		for err := operator.AdmitMembers(ctx, n, names); err != nil; err = operator.AdmitMembers(ctx, n, names) {
			testkit.Require(t, ctx.Err() == nil, "%v", err)
			time.Sleep(100 * time.Millisecond)
		}
	}
}

//go:build unix

package masters_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	testchild "github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// The loop in operations.md restarts all masters under a job that keeps its lock. With -wait in place of -wait-all the
// job loses it. The restarts have the masters' names, the max lease and with it the pause are short, and nothing else
// differs from the page.
func TestRestartsAsOnThePage(t *testing.T) {
	t.Parallel()
	page := testkit.Read(t, filepath.Join("..", "..", "..", "..", "docs", "operations.md"))
	loop := regexp.MustCompile("(?s)\n## Restarts\n.*?\n```sh\n(.*?)```\n").FindStringSubmatch(page)
	if loop == nil {
		t.Fatal("no loop below Restarts")
	}
	for name, test := range map[string]struct {
		loop     string
		survives bool
	}{
		"until all grant":         {loop[1], true},
		"until a majority grants": {strings.ReplaceAll(loop[1], "-wait-all", "-wait"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const maxLease = 8 * time.Second // longer than a stall of a busy machine
			d := clitest.Deploy(t, 3, maxLease)
			dir := t.TempDir()
			urls := filepath.Join(dir, "urls")
			for path, text := range map[string]string{
				urls: strings.Join(d.URLs(), "\n"),
				filepath.Join(dir, "quorumlock"): fmt.Sprintf("#!/bin/sh\nverb=$1; shift\n%s=1 exec '%s' $verb -max-lease %v \"$@\"\n",
					clitest.Variable, os.Args[0], maxLease),
				// It tells this test which master to restart, and waits for that.
				filepath.Join(dir, "ssh"): fmt.Sprintf("#!/bin/sh\n[ \"$2 $3 $4\" = 'systemctl restart redis-server' ] || exit 1\n"+
					"echo $1 >'%s/asked.new' && mv '%[1]s/asked.new' '%[1]s/asked'\nwhile [ -e '%[1]s/asked' ]; do sleep 0.05; done\n", dir),
			} {
				testkit.Must(t, testchild.WriteProgram(path, text))
			}
			job := d.Start(t, "job", "--", "sh", "-c", "echo ready; exec sleep 600")
			script := exec.Command("sh", "-c", strings.NewReplacer("/etc/quorumlock/urls", urls, "sleep 10 ", "sleep 3 ").Replace(test.loop))
			script.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0")
			var out clitest.Output
			script.Stdout, script.Stderr = &out, &out
			script.WaitDelay = time.Second
			testkit.Must(t, script.Start())
			ended := make(chan error, 1)
			go func() { ended <- script.Wait() }()
			restarted := ""
			for done := false; !done; {
				select {
				case err := <-ended:
					done = true
					testkit.Is(t, err, nil, "the loop")
				case <-time.After(20 * time.Millisecond):
					asked, err := os.ReadFile(dir + "/asked")
					if err != nil {
						continue
					}
					master := strings.TrimSpace(string(asked))
					restarted += master
					m := d.Masters[master[0]-'a']
					testkit.Must(t, m.Kill())
					testkit.Must(t, m.Start())
					testkit.Must(t, os.Remove(dir+"/asked"))
				}
			}
			if !test.survives {
				job.Eventually(t, "the job loses its lock", job.HasExited)
			} else if job.HasExited() {
				t.Errorf("the job ended with %v: %s", job.ProcessState, &job.Errs)
			}
			testkit.Check(t, restarted == "abc" && !t.Failed(), "restarted: %s\n%s", restarted, &out)
		})
	}
}

package promquorumlock_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// server is a Prometheus that scrapes one target, with docs/alerts.yml.
type server struct {
	address string
	log     bytes.Buffer
	cmd     *exec.Cmd
}

// needs returns the path of a program of Prometheus', or skips the test.
func needs(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("needs %s (apt-get install prometheus): %v", program, err)
	}
	return path
}

var (
	rangeOf = regexp.MustCompile(`\b5m\b`)
	forOf   = regexp.MustCompile(`for: \w+`)
)

// startPrometheus starts a Prometheus that scrapes the target twice a second. The rules are
// those of docs/alerts.yml with seconds for minutes.
func startPrometheus(t *testing.T, target string) *server {
	t.Helper()
	program, dir := needs(t, "prometheus"), t.TempDir()
	rules, err := os.ReadFile(filepath.Join("..", "..", "docs", "alerts.yml"))
	must(t, err)
	quick := forOf.ReplaceAll(rangeOf.ReplaceAll(rules, []byte("6s")), []byte("for: 1s"))
	must(t, os.WriteFile(filepath.Join(dir, "alerts.yml"), quick, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), fmt.Appendf(nil, `
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 250ms}
rule_files: [alerts.yml]
scrape_configs:
  - job_name: app
    static_configs: [{targets: [%q]}]
`, target), 0o600))
	for range 5 { // the port may be taken meanwhile
		s := &server{address: freeAddress(t)}
		s.cmd = exec.Command(program, "--config.file="+filepath.Join(dir, "prometheus.yml"),
			"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+s.address, "--log.level=warn")
		s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
		must(t, s.cmd.Start())
		ended := make(chan struct{})
		go func() { defer close(ended); s.cmd.Wait() }()
		if s.isReady(ended) {
			t.Cleanup(func() { s.cmd.Process.Kill(); <-ended })
			return s
		}
		s.cmd.Process.Kill()
		<-ended
		t.Logf("prometheus did not start: %s", s.log.String())
	}
	t.Fatal("prometheus does not start")
	return nil
}

func (s *server) isReady(ended <-chan struct{}) bool {
	for late := time.After(20 * time.Second); ; {
		if r, err := http.Get("http://" + s.address + "/-/ready"); err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return true
			}
		}
		select {
		case <-ended:
			return false
		case <-late:
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

// series is one of a query's results.
type series struct {
	Metric map[string]string
	Value  [2]any // time, and the value as text
}

// query evaluates an expression now.
func (s *server) query(t *testing.T, expr string) []series {
	t.Helper()
	r, err := http.Get("http://" + s.address + "/api/v1/query?query=" + url.QueryEscape(expr))
	must(t, err)
	defer r.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct{ Result []series }
	}
	must(t, json.NewDecoder(r.Body).Decode(&answer))
	if answer.Status != "success" {
		t.Fatalf("%s: %s", expr, answer.Error)
	}
	return answer.Data.Result
}

// firing returns the alerts that fire now.
func (s *server) firing(t *testing.T) map[string]bool {
	t.Helper()
	return s.alerts(t, `ALERTS{alertstate="firing"}`)
}

// fired returns the alerts that have fired since then.
func (s *server) fired(t *testing.T, since time.Time) map[string]bool {
	t.Helper()
	age := max(time.Since(since).Milliseconds(), 1)
	return s.alerts(t, fmt.Sprintf(`count_over_time(ALERTS{alertstate="firing"}[%dms])`, age))
}

func (s *server) alerts(t *testing.T, expr string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, alert := range s.query(t, expr) {
		all[alert.Metric["alertname"]] = true
	}
	return all
}

package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

const aRun = `{"Action":"output","Output":"-test.shuffle 17\n"}
{"Action":"run","Test":"TestA"}
{"Action":"output","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"run","Test":"TestA/x"}
{"Action":"output","Test":"TestA/x","Output":"connecting\n"}
{"Action":"output","Test":"TestA/x","Output":"    a_test.go:7: late | again\n"}
{"Action":"fail","Test":"TestA/x"}
{"Action":"fail","Test":"TestA"}
{"Action":"run","Test":"TestB"}
{"Action":"pass","Test":"TestB"}
{"Action":"output","Output":"FAIL\n"}
{"Action":"fail"}
`

// A subtest that fails is counted, and not its parent beside it. The table has the first failure.
func TestTable(t *testing.T) {
	all := &table{}
	for range 3 {
		r := parse([]byte(aRun))
		if r.seed != "17" {
			t.Errorf("shuffled by %q", r.seed)
		}
		r.dir, r.took = "a", time.Second
		all.add(r)
	}
	all.add(&result{dir: "b", failures: nil})
	var printed strings.Builder
	all.print(&printed)
	for _, want := range []string{"| a | all (longest run 1s) | 3 | 3 | |\n", "| a | TestA/x | 3 | 3 | a_test.go:7: late / again |\n",
		"| b | all (longest run 0s) | 1 | 0 | |\n", "\n--- a TestA/x -test.shuffle=17\n"} {
		if !strings.Contains(printed.String(), want) {
			t.Errorf("no %q in:\n%s", want, &printed)
		}
	}
	if strings.Contains(printed.String(), "TestB") || strings.Contains(printed.String(), "| TestA |") || !all.failed() {
		t.Errorf("printed:\n%s", &printed)
	}
}

// A test that panics is counted: test2json lets it fail.
func TestARunThatDied(t *testing.T) {
	r := parse([]byte(`{"Action":"run","Test":"TestA"}
{"Action":"output","Test":"TestA","Output":"panic: x\n"}
{"Action":"fail","Test":"TestA"}
`))
	if names := r.names(); len(names) != 1 || names[0] != "TestA" {
		t.Errorf("failed: %v", names)
	}
}

// What ended a process is told, and not what its tests printed last.
func TestLastOf(t *testing.T) {
	for printed, want := range map[string]string{
		"x\n=== RUN a\npanic: gone\n\ngoroutine 1\n":   "panic: gone\n\ngoroutine 1\n",
		"x\nfatal error: two\nPASS\n":                  "fatal error: two\nPASS\n",
		"x\nSIGSEGV: segmentation violation\nPC=0x1\n": "SIGSEGV: segmentation violation\nPC=0x1\n",
		"not panic: 1\nPASS\nleaked\n":                 "not panic: 1\nPASS\nleaked\n",
	} {
		if got := string(lastOf([]byte(printed))); got != want {
			t.Errorf("of %q: %q, want %q", printed, got, want)
		}
	}
}

func TestAllSkipped(t *testing.T) {
	r := parse([]byte(`{"Action":"skip","Test":"TestA"}`))
	if err := r.nothingRan(""); err == nil || err.Error() != "every test was skipped" {
		t.Errorf("error %v", err)
	}
	if r := parse([]byte(aRun)); r.nothingRan("") != nil {
		t.Error(r.nothingRan(""))
	}
}

// With each of these settings nothing would run.
func TestBadSettings(t *testing.T) {
	good := settings{bound: time.Minute, jobs: 1}
	if err := good.check([]string{"."}); err != nil {
		t.Error(err)
	}
	for want, bad := range map[string]func(*settings) string{
		"-run: ":              func(s *settings) string { s.filter = "("; return "." },
		"-for 0s: ":           func(s *settings) string { s.bound = 0; return "." },
		"-runs -1: ":          func(s *settings) string { s.runs = -1; return "." },
		"-hogs -1: ":          func(s *settings) string { s.hogs = -1; return "." },
		"-jobs 0: ":           func(s *settings) string { s.jobs = 0; return "." },
		`"-race=false" is no`: func(s *settings) string { return "-race=false" },
		`"./..." is no`:       func(s *settings) string { return "./..." },
	} {
		s := good
		dir := bad(&s)
		if _, err := run(t.Context(), s, []string{dir}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestNoTestMatches(t *testing.T) {
	b := &binary{dir: ".", path: os.Args[0]}
	r := b.run(t.Context(), "^TestThatIsNotThere$")
	if names := r.names(); len(names) != 1 || !strings.Contains(r.failures[0].text, `no test matches "^TestThatIsNotThere$"`) {
		t.Errorf("failed: %+v", r.failures)
	}
}

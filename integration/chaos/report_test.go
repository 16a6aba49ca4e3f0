//go:build unix

package chaos

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/timeline"
)

//go:embed report.md.tmpl
var reportText string

// report collects results, and writes them as Markdown. Everything in it comes from the run.
type report struct {
	mu      sync.Mutex
	results []*result
	notes   []string
}

func (r *report) add(one *result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, one)
}

// note adds a line about the whole run, once.
func (r *report) note(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.notes, line) {
		r.notes = append(r.notes, line)
	}
}

// section is a scenario's results with the library.
type section struct {
	Name, Shows string
	Results     []*result
}

func (r *report) write(path string, passed bool) error {
	page, err := template.New("report").Funcs(template.FuncMap{
		"ms":   func(d time.Duration) string { return d.Round(time.Millisecond).String() },
		"join": func(all []string) string { return strings.ReplaceAll(strings.Join(all, "; "), "|", `\|`) },
	}).Parse(reportText)
	if err != nil {
		return err
	}
	data := map[string]any{
		"Date": time.Now().UTC().Format("2006-01-02 15:04 UTC"), "Machine": machine(), "Revision": *revision, "Masters": inside.Of(lab.backend).Kind,
		"Part": flag.Lookup("test.run").Value.String(), "Seed": *seed, "Walk": *walkFor, "Race": *race, "Passed": passed, "Notes": r.notes,
		"Lease": defaultLease, "Timeout": nodeTimeout, "OrphanBound": orphanBound,
	}
	var sections []section
	var controls []*result
	sum := map[string]int{}
	for _, s := range scenarios() {
		one := section{Name: s.name, Shows: s.shows}
		for _, res := range r.results {
			switch {
			case res.Scenario != s.name:
			case res.Kind != library:
				controls = append(controls, res)
			default:
				one.Results = append(one.Results, res)
				sum["double holds"] += res.DoubleHolds
				sum["other violations of the history"] += res.Other
				sum["lost acknowledged writes"] += res.LostWrites
				sum["orphan keys"] += res.Orphans
				sum["acquired"] += res.Acquired
				sum["failovers"] += res.Failovers
			}
		}
		if one.Results != nil {
			sections = append(sections, one)
		}
	}
	pair, pictures := r.pair(), []string(nil)
	if *pairTo != "" && pair == nil {
		data["Notes"] = append(slices.Clone(r.notes), "the README's pictures are older: redsync was not run, or did no harm")
	}
	for _, one := range pair {
		path, err := filepath.Rel(filepath.Dir(path), filepath.Join(*pairTo, pairFile(one.Kind)))
		if err != nil {
			return err
		}
		pictures = append(pictures, fmt.Sprintf("![%s](%s)", one.Picture.Title, filepath.ToSlash(path)))
	}
	data["Sections"], data["Controls"], data["Sum"], data["Kinds"], data["Pair"] = sections, controls, sum, kinds(controls), pictures
	var text strings.Builder
	if err := page.Execute(&text, data); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}

// kinds describes the controls that were played.
func kinds(played []*result) [][2]string {
	all := [][2]string{{redsync, "go-redsync v4 over redigo, extended every third of its expiry; its Until is the deadline, and the clock stands in for a fencing token. Where the members change, its clients have the same lists (clients with the first list run next to clients with the last one), without those that are wrong from the start"}}
	for _, c := range controls() {
		if kind := [2]string{c.without, c.means}; !slices.Contains(all, kind) {
			all = append(all, kind)
		}
	}
	return slices.DeleteFunc(all, func(kind [2]string) bool {
		return !slices.ContainsFunc(played, func(r *result) bool { return r.Kind == kind[0] })
	})
}

func machine() string {
	shape := fmt.Sprintf("%d × %s, %s, %s", runtime.NumCPU(), runtime.GOARCH, runtime.GOOS, runtime.Version())
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kilobytes int
		if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kilobytes); err == nil {
			shape += fmt.Sprintf(", %.1f GiB", float64(kilobytes)/(1<<20))
		}
	}
	if release, err := exec.Command("uname", "-sr").Output(); err == nil {
		shape += ", " + strings.TrimSpace(string(release))
	}
	return shape
}

// hold is a client's hold of the lock, in milliseconds.
func hold(client int, from, to int64) []history.Event {
	const ms = int64(time.Millisecond)
	acquired := history.Event{Client: client, Name: name, Owner: fmt.Sprintf("%d at %d", client, from), Depth: 1, Kind: history.Acquired,
		Token: uint64(1 + from), Call: (from - 5) * ms, Return: from * ms, Deadline: 1e6 * ms}
	released := acquired
	released.Kind, released.Call, released.Return = history.Released, to*ms, (to+5)*ms
	return []history.Event{acquired, released}
}

// pictureOf draws events of two clients.
func pictureOf(events []history.Event) *timeline.Picture {
	r := &run{cluster: &cluster{stage: &stage{}}, kind: library, result: &result{Scenario: "made up"}}
	for client := range 2 {
		r.workers = append(r.workers, &worker{plan: contender.Plan{Client: client + 1, Kind: library, URLs: []string{"a"}}})
	}
	return r.draw(events)
}

// Red is what package history judges, and nothing else.
func TestPicturesOfHolds(t *testing.T) {
	for second, want := range map[int64]string{100: "Never two holders of the lock, ", 50: "Two holders of the lock, for 50ms, 1 50-100, 2 50-100, "} {
		p := pictureOf(append(hold(1, 1, 100), hold(2, second, 150)...))
		got := p.Verdict() + ", "
		for i, row := range p.Rows {
			for _, s := range row.Spans {
				if s.State == timeline.Clash {
					got += fmt.Sprintf("%d %d-%d, ", i+1, s.From.Milliseconds(), s.To.Milliseconds())
				}
			}
		}
		testkit.Check(t, got == want, "%q, want %q", got, want)
	}
}

// made is a result with a picture.
func made(kind string, doubleHolds int) *result {
	return &result{Kind: kind, DoubleHolds: doubleHolds, Picture: pictureOf(hold(1, 1, 2))}
}

// The README's pictures are written only if redsync did harm and the library did none.
func TestPicturesOfThePair(t *testing.T) {
	defer func(pair string) { *pairTo = pair }(*pairTo)
	for name, c := range map[string]struct {
		results []*result
		want    bool
	}{
		"both":                   {[]*result{made(library, 0), made(redsync, 5)}, true},
		"redsync again":          {[]*result{made(library, 0), made(redsync, 0), made(redsync, 2)}, true},
		"redsync did no harm":    {[]*result{made(library, 0), made(redsync, 0)}, false},
		"the library did":        {[]*result{made(library, 1), made(redsync, 5)}, false},
		"redsync was not played": {[]*result{made(library, 0)}, false},
	} {
		*pairTo = filepath.Join(t.TempDir(), "made", "if need be")
		err := (&report{results: c.results}).writePair()
		for _, kind := range []string{redsync, library} {
			_, missing := os.Stat(filepath.Join(*pairTo, pairFile(kind)))
			testkit.Check(t, err == nil && (missing == nil) == c.want, "%s: %v, %s: %v", name, err, kind, missing)
		}
	}
}

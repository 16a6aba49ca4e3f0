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
	"text/template"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
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

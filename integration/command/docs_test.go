//go:build unix

package command_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// docs is the directory of the pages.
var docs, _ = filepath.Abs(filepath.Join("..", "..", "docs"))

// elsewhere has the blocks that no script runs, with the test that does.
var elsewhere = map[string]string{"fencing.md: In a shell job, with psql": "integration/fence, psql"}

// Each block of shell in the documents is run by a script, as it stands there.
func TestScriptsRunTheDocuments(t *testing.T) {
	pages := testkit.Got(filepath.Glob(filepath.Join(docs, "*.md")))(t)
	scripts := testkit.Got(filepath.Glob("testdata/*.txtar"))(t)
	all := ""
	for _, script := range scripts {
		all += testkit.Read(t, script)
	}
	blocks := 0
	for _, page := range append(pages, filepath.Join(docs, "..", "README.md")) {
		for heading, block := range shellBlocks(testkit.Read(t, page)) {
			blocks++
			page := filepath.Base(page)
			if elsewhere[page+": "+heading] != "" || strings.Contains(all, fmt.Sprintf("\ndocument %s '%s' ", page, heading)) {
				continue
			}
			for i := range strings.Count(block, "\n") {
				testkit.Check(t, regexp.MustCompile(fmt.Sprintf(`\ndocumented \d %s '%s' %d\n`, page, heading, i+1)).MatchString(all),
					"%s: no script runs line %d below %q:\n%s", page, i+1, heading, block)
			}
		}
	}
	testkit.Check(t, blocks > 5, "only %d blocks: does this test find them?", blocks)
}

// shellBlocks returns the sh and console blocks of a page, by the nearest heading, without prompts.
func shellBlocks(text string) map[string]string {
	found, heading, block := map[string]string{}, "", ""
	for line := range strings.Lines(text) {
		switch {
		case block == "" && strings.HasPrefix(line, "#"):
			_, heading, _ = strings.Cut(strings.TrimSpace(line), " ")
		case strings.HasPrefix(line, "```"):
			block = map[bool]string{true: cmp.Or(strings.TrimSpace(line[3:]), "text")}[block == ""]
		case block == "sh", block == "console":
			found[heading] += strings.TrimPrefix(line, "$ ")
		}
	}
	return found
}

// blockOf returns the block below a heading of a page in docs/.
func (w *world) blockOf(page, heading string) string {
	block, ok := shellBlocks(w.ReadFile(filepath.Join(docs, page)))[heading]
	if !ok {
		w.Fatalf("no block of shell below %q", heading)
	}
	return block
}

// document PAGE HEADING FILE: the file gets the block of shell below the heading. In place of a heading there may be a
// pattern, whose group is what it gets; it is in the page once.
func (w *world) document(args []string) {
	text := ""
	if strings.HasPrefix(args[1], "^") {
		found := regexp.MustCompile(`(?m)`+args[1]).FindAllStringSubmatch(w.ReadFile(filepath.Join(docs, args[0])), -1)
		if len(found) != 1 {
			w.Fatalf("%d times in the page", len(found))
		}
		text = found[0][1] + "\n"
	} else {
		text = w.blockOf(args[0], args[1])
	}
	w.Check(os.WriteFile(w.MkAbs(args[2]), []byte(text), 0o600))
}

var (
	pageURL  = regexp.MustCompile(`^redis://(\w)(\.example)?:6379$`)
	pageName = regexp.MustCompile(`^(\w):6379$`)
)

// documented CODE PAGE HEADING N: the command is run by line N of the block below the heading, and ends with the code. Only
// the masters' URLs and names are the script's: a for a:6379. All lockers have stopped a while ago.
func (w *world) documented(args []string) {
	n := 0
	_, err := fmt.Sscan(args[3], &n)
	w.Check(err)
	for _, m := range w.masters {
		_, _ = m.Do("EVAL", "for _, key in ipairs(redis.call('KEYS', 'quorumlock:locker:*')) do redis.call('DEL', key) end", 0) // unless it is down
	}
	words := strings.Fields(strings.Split(w.blockOf(args[1], args[2]), "\n")[n-1])
	for i, word := range words {
		if at := pageURL.FindStringSubmatch(word); at != nil {
			words[i] = w.Getenv(at[1])
		}
		words[i] = pageName.ReplaceAllString(words[i], "$1")
	}
	if words[0] != "quorumlock" {
		w.Fatalf("%q is no call of the command", words)
	}
	w.exits(append(args[:1:1], words[1:]...))
}

// accepts LIST...: clients with each of these lists of masters, whose names are between commas, lock.
func (w *world) accepts(args []string) { w.tries("0", args) }

// refuses LIST...: clients with them are refused for it.
func (w *world) refuses(args []string) { w.tries("78", args) }

func (w *world) tries(code string, lists []string) {
	before := w.Getenv("QUORUMLOCK_URLS")
	for _, list := range lists {
		urls := ""
		for name := range strings.SplitSeq(list, ",") {
			urls += w.Getenv(name) + " "
		}
		w.Setenv("QUORUMLOCK_URLS", urls)
		w.exits([]string{code, "run", "-timeout", "10s", "-w", "20s", "tried", "--", "true"})
	}
	w.Setenv("QUORUMLOCK_URLS", before)
}

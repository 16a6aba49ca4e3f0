package pictures

import (
	"bytes"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/timeline"
)

// pageOf returns a page with the picture of a run.
func pageOf(t *testing.T, runs ...Run) string {
	t.Helper()
	p := Page{Title: "Made up", Facts: []string{"seed <7>"}}
	for _, r := range runs {
		p.Shots = append(p.Shots, Shot{Picture: Of(r), Shows: "It shows <b>", Notes: []string{"a note"},
			Again: "go test -run 'A & B'",
			Views: []string{"made-histories/up.html"}})
	}
	var page bytes.Buffer
	if err := p.Write(&page); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

func TestPageHasAllOfARun(t *testing.T) {
	page := pageOf(t, runOf(500), runOf(300))
	for _, want := range []string{"<h1>Made up</h1>", "seed &lt;7&gt;", "It shows &lt;b&gt;", "a note",
		`<section id="run-2">`, `href="#run-2"`,
		"Two holders of the lock, for 100ms</li>", `<a href="made-histories/up.html">`,
		"go test -run &#39;A &amp; B&#39;", "prefers-color-scheme:dark"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if n := strings.Count(page, "<svg "); n != 2 || strings.Contains(page, "<script") || strings.Contains(page,
		"<link") {
		t.Errorf("%d pictures, or something from elsewhere", n)
	}
}

func TestPageOfWhatCannotBeDrawn(t *testing.T) {
	var page bytes.Buffer
	p := Page{Shots: []Shot{{Picture: &timeline.Picture{Title: "empty"}}}}
	if err := p.Write(&page); err == nil || !strings.Contains(err.Error(), `nothing to draw in "empty"`) ||
		page.Len() > 0 {
		t.Errorf("%v, and wrote %q", err, page.String())
	}
}

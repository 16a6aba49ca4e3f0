package pictures

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"github.com/quorumlock/quorumlock/internal/timeline"
)

//go:embed page.html.tmpl
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// Page is pictures on one page of HTML.
type Page struct {
	Title string
	Facts []string // about all runs
	Shots []Shot
}

// Shot is a picture on a page.
type Shot struct {
	Picture *timeline.Picture
	Shows   string   // what the scenario shows
	Notes   []string // what was seen
	Again   string   // the command that plays it again
	Views   []string // porcupine's views of its history: paths from the page
}

// SVG is the picture as the page has it.
func (s Shot) SVG() (template.HTML, error) {
	var svg bytes.Buffer
	err := s.Picture.WriteSVG(&svg)
	return template.HTML(svg.String()), err // WriteSVG escapes texts
}

// Anchor names the shot in links.
func (p Page) Anchor(i int) string { return fmt.Sprintf("run-%d", i+1) }

// Write writes the page: all of it, with the pictures, but for porcupine's views, is in this one file.
func (p Page) Write(w io.Writer) error {
	var page bytes.Buffer
	if err := pageTemplate.Execute(&page, p); err != nil {
		return fmt.Errorf("pictures: %w", err)
	}
	_, err := w.Write(page.Bytes())
	return err
}

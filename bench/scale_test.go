package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestScaleKeepsWhatIsNoFigure(t *testing.T) {
	path := filepath.Join(t.TempDir(), "scale.md")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := &report{size: full(), results: results{{choiceTest(256), 3}: {rounds: map[string][]figures{
		ours: {{mastersCPU: 60e3, callersCPU: 40e3, traffic: 3000}}}}}}
	write("above\n" + figuresBegin + "old\n" + figuresEnd + "below\n")
	for range 2 {
		if err := r.saveScale(path); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// A master takes a third of 60 µs: 50,000 locks in a second of each core, 10,000 if 100 µs
	// share one.
	for _, want := range []string{"| 3 | 20.0 µs | 50000 | 40.0 µs | 25000 | 10000 | 1000 B | 400 Mbit/s |"} {
		if strings.Count(string(text), want) != 1 {
			t.Errorf("want %q once in:\n%s", want, text)
		}
	}
	if !strings.HasPrefix(string(text), "above\n") || !strings.HasSuffix(string(text), "below\n") ||
		strings.Contains(string(text), "old") {
		t.Errorf("%s", text)
	}
	write("no place\n")
	if r.saveScale(path) == nil {
		t.Error("no error of a file without a place for the figures")
	}
}

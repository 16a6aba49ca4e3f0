package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

func TestWorker(t *testing.T) {
	masters := testkit.Real(t, 3)
	var out bytes.Buffer
	testkit.Must(t, run(masters.URLs(), strings.NewReader("1 200ms\n8 200ms\n"), json.NewEncoder(&out)))
	answers := json.NewDecoder(&out)
	for range 2 {
		var a Answer
		testkit.Must(t, answers.Decode(&a))
		testkit.Check(t, a.Pairs > 0 && a.Took >= 200*time.Millisecond && a.Allocs > 0, "%+v", a)
	}
	testkit.Check(t, !answers.More(), "more answers than lines")
	testkit.Check(t, run(masters.URLs(), strings.NewReader("1 long\n"), json.NewEncoder(&out)) != nil, "no error of a line that is none")
}

package history

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

var samples = []Event{
	{Client: 3, Name: "k", Owner: "a:1", Depth: 1, Kind: Acquired, Token: 1<<53 - 1, Call: -5, Return: 1<<62 + 1,
		Deadline: Unknown},
	{Name: "a\x00b\xff\n", Owner: "b:2", Kind: Released, Return: Unknown},
	{Name: "a\x00b\xfe\n", Owner: "\"", Depth: 2, Kind: Lost},
	{},
}

func TestEventsSurviveJSON(t *testing.T) {
	valid := samples[:3]
	var file bytes.Buffer
	testkit.Must(t, WriteJSON(&file, valid...))
	testkit.Equal(t, strings.Count(file.String(), "\n"), len(valid), "lines")
	whole := file.String()
	got, err := ReadJSON(&file)
	testkit.Check(t, err == nil && slices.Equal(got, valid), "read back %+v (%v), want %+v", got, err, valid)

	// A process that is killed may leave a last line without an end, complete or not.
	for cut := range len(whole) {
		got, err := ReadJSON(strings.NewReader(whole[:cut]))
		if want := strings.Count(whole[:cut], "\n"); err != nil || !slices.Equal(got, valid[:want]) {
			t.Fatalf("cut at %d: %d events (%v), want %d", cut, len(got), err, want)
		}
	}
}

func TestJSONOfNoEvent(t *testing.T) {
	testkit.Check(t, WriteJSON(&bytes.Buffer{}, samples[3]) != nil, "an event without a kind was written")
	var first bytes.Buffer
	testkit.Must(t, WriteJSON(&first, samples[0]))
	for _, bad := range []string{"\n", "{}{}\n", `{"Kind":"gained"}` + "\n", `{"Token":-1}` + "\n", "[]\n"} {
		got, err := ReadJSON(strings.NewReader(first.String() + bad + first.String()))
		testkit.Check(t, err != nil && strings.Contains(err.Error(), "line 2") && len(got) == 1,
			"%q: %d events and %v, want 1 and an error that names line 2", bad, len(got), err)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

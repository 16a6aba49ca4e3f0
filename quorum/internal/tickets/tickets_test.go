package tickets

import (
	"encoding/base64"
	"reflect"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

func encoded(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func TestTickets(t *testing.T) {
	owner := scripts.OwnerOf("locker:1")
	for _, names := range [][]string{{"a"}, {"a\xff\x00b", "ü", strings.Repeat("x", 4096)}} {
		want := Ticket{Owner: owner, Token: 1<<52 - 1, Names: names}
		got, err := Parse(want.String())
		testkit.Check(t, err == nil && reflect.DeepEqual(got, want), "%+v is read as %+v, %v", want, got, err)
	}
	names := []string{"a"}
	good := Ticket{Owner: owner, Token: 7, Names: names, Slots: []int{1, 5}}
	text := good.String()
	got, err := Parse(text)
	testkit.Check(t, err == nil && reflect.DeepEqual(got, good), "%+v is read as %+v, %v", good, got, err)
	most := make([]int, scripts.MaxNames+1)
	for i := range most {
		most[i] = i
	}
	for what, bad := range map[string]string{
		"empty": "", "cut off": text[:len(text)-4], "no base64url": "a ticket", "no JSON": "aGVsbG8", "other JSON": "e30",
		"more behind it":      text + "!",
		"another version":     encoded(`{"v":2,"owner":"locker:1","token":7,"names":["YQ=="]}`),
		"a number for a name": encoded(`{"v":1,"owner":"locker:1","token":7,"names":[5]}`),
		"no slots":            encoded(`{"v":1,"owner":"locker:1","token":7,"names":["YQ=="],"slots":[]}`),
		"no token":            Ticket{Owner: owner, Names: names}.String(),
		"no owner":            Ticket{Owner: scripts.OwnerOf(""), Token: 7, Names: names}.String(),
		"long owner":          Ticket{Owner: scripts.OwnerOf(strings.Repeat("x", maxOwner+1)), Token: 7, Names: names}.String(),
		"two names":           Ticket{Owner: owner, Token: 7, Names: []string{"a", "b"}, Slots: []int{1}}.String(),
		"slot -1":             Ticket{Owner: owner, Token: 7, Names: names, Slots: []int{-1}}.String(),
		"slot 1024":           Ticket{Owner: owner, Token: 7, Names: names, Slots: []int{scripts.MaxSlots}}.String(),
		"slots back":          Ticket{Owner: owner, Token: 7, Names: names, Slots: []int{2, 1}}.String(),
		"slot twice":          Ticket{Owner: owner, Token: 7, Names: names, Slots: []int{1, 1}}.String(),
		"65 slots":            Ticket{Owner: owner, Token: 7, Names: names, Slots: most}.String(),
	} {
		got, err := Parse(bad)
		testkit.Check(t, err != nil, "%s: %+v", what, got)
	}
}

package profile

import (
	"slices"
	"testing"

	"github.com/google/pprof/profile"
)

func TestPackageThatIsNotOfTheStandardLibrary(t *testing.T) {
	stackOf := func(value int64, names ...string) *profile.Sample {
		s := &profile.Sample{Value: []int64{1, value}}
		for _, name := range names {
			line := profile.Line{Function: &profile.Function{Name: name}}
			s.Location = append(s.Location, &profile.Location{Line: []profile.Line{line}})
		}
		return s
	}
	p := &profile.Profile{SampleType: make([]*profile.ValueType, 2), Sample: []*profile.Sample{
		stackOf(60, "syscall.Syscall", "net.(*conn).Write", "github.com/gomodule/redigo/redis.(*conn).Flush",
			"github.com/quorumlock/quorumlock/internal/pipeline.(*Pipe).write"),
		stackOf(30, "slices.IndexFunc[go.shape.a/b.c]", "golang.org/x/sys/unix.Read",
			"github.com/quorumlock/quorumlock/quorum.(*Locker).Lock", "main.main"),
		stackOf(10, "runtime.mcall", "runtime.schedule"),
	}}
	all := byPackage(p)
	var names []string
	for _, e := range all {
		names = append(names, e.name)
	}
	if want := []string{"github.com/gomodule/redigo/redis", "quorum", rest}; !slices.Equal(names, want) {
		t.Fatalf("%q, want %q", names, want)
	}
	if all[0].share != 0.6 || all[0].most() != "`syscall.Syscall` 60 %" {
		t.Errorf("%+v", all[0])
	}
}

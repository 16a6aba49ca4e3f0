package masters_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// listed starts masters that grant at once to clients with the list of all of them.
func listed(t *testing.T, masters int, args ...string) *redistest.Fleet {
	t.Helper()
	fleet := testkit.Real(t, masters, args...)
	clitest.Command(t, cli.ExitOK, slices.Concat([]string{"admit", "-yes", "-members"}, fleet.URLs())...)
	return fleet
}

// Masters that answer, and on which nobody could lock, are not fit: check says why.
func TestCheckTriesALock(t *testing.T) {
	t.Parallel()
	all := (*redistest.Fleet).URLs
	as := func(user ...string) func(*testing.T, *redistest.Fleet) []string {
		return func(t *testing.T, f *redistest.Fleet) []string {
			testkit.Do(t, f.Masters[0], redistest.SetUser("app", append([]string{"on", ">pw"}, user...)...)...)
			return []string{strings.Replace(f.Masters[0].URL(), "://", "://app:pw@", 1)}
		}
	}
	config := func(words ...any) func(*testing.T, *redistest.Fleet) []string {
		return func(t *testing.T, f *redistest.Fleet) []string {
			testkit.Do(t, f.Masters[0], append([]any{"CONFIG", "SET"}, words...)...)
			return all(f)
		}
	}
	gone := t.TempDir() + "/gone"
	for name, test := range map[string]struct {
		masters int
		servers []string // arguments
		args    func(*testing.T, *redistest.Fleet) []string
		says    string
		needs   []redistest.Feature
	}{
		"one URL of three": {masters: 3, says: "clients with {",
			args: func(_ *testing.T, f *redistest.Fleet) []string { return all(f)[:1] }},
		"a wrong list": {masters: 3, says: "this client's list is {",
			args: func(t *testing.T, f *redistest.Fleet) []string {
				return append(all(f)[:2], "redis://"+strings.Replace(f.Masters[2].Addr(), "127.0.0.1", "localhost", 1))
			}},
		"a blank master": {masters: 3, says: "it has no list of masters: it is new, or has forgotten",
			args: func(t *testing.T, f *redistest.Fleet) []string {
				testkit.Do(t, f.Masters[1], "FLUSHALL")
				return all(f)
			}},
		"no channels": {masters: 1, says: "(the user needs the channels redisson_lock__channel* and quorumlock:seal)", needs: []redistest.Feature{redistest.ACLChannels},
			args: as("~*", "resetchannels", "+@all")},
		"no writes":         {masters: 1, says: "refuses writes: NOPERM", args: as("~*", "&*", "+@all", "-@write")},
		"no reserved keys":  {masters: 1, says: "(the user needs the keys quorumlock:* and the names of its locks)", args: as("~jobs:*", "~quorumlock:marker", "&*", "+@all")},
		"no refusals":       {masters: 1, says: "HLEN", args: as("~*", "&*", "+@all", "-hlen")},
		"too few replicas":  {masters: 1, says: "refuses writes: NOREPLICAS", args: config("min-replicas-to-write", "1")},
		"no memory":         {masters: 1, says: "refuses writes: OOM", args: config("maxmemory", "1")},
		"a command renamed": {masters: 1, says: "PEXPIRE", servers: []string{"--rename-command", "PEXPIRE", ""}, args: func(_ *testing.T, f *redistest.Fleet) []string { return all(f) }},
		"a disk that is full": {masters: 1, says: "MISCONF", servers: []string{"--save", "3600 1", "--dir", gone},
			args: func(t *testing.T, f *redistest.Fleet) []string {
				testkit.Must(t, os.RemoveAll(gone))
				testkit.Do(t, f.Masters[0], "BGSAVE")
				if !poll.Until(20*time.Second, func() bool {
					return testkit.Info(t, f.Masters[0], "persistence", "rdb_last_bgsave_status") == "err"
				}) {
					t.Fatal("BGSAVE does not fail")
				}
				return all(f)
			}},
		"keys of the locks": {masters: 1, says: "(the user needs the keys quorumlock:* and the names of its locks)",
			args: func(t *testing.T, f *redistest.Fleet) []string {
				urls := as("~quorumlock:*", "~jobs:*", "&*", "+@all")(t, f)
				clitest.Command(t, cli.ExitOK, append([]string{"check"}, urls...)...)
				clitest.Command(t, cli.ExitOK, append([]string{"check", "-name", "jobs:check"}, urls...)...)
				return append([]string{"-name", "other"}, urls...)
			}},
		"a name that is held": {masters: 1, says: `"held" is held by "o:1"`,
			args: func(t *testing.T, f *redistest.Fleet) []string {
				testkit.Do(t, f.Masters[0], "HSET", "held", "o:1", "1")
				testkit.Do(t, f.Masters[0], "PEXPIRE", "held", "100000")
				return append([]string{"-name", "held"}, all(f)...)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redistest.Need(t, test.needs...)
			testkit.Must(t, os.MkdirAll(gone, 0o700))
			fleet := listed(t, test.masters, test.servers...)
			printed, _ := clitest.Command(t, cli.ExitFailed, append([]string{"check"}, test.args(t, fleet)...)...)
			clitest.Contains(t, printed, test.says)
			keys := testkit.Do(t, fleet.Masters[0], "KEYS", "quorumlock:trial:*")
			testkit.Check(t, len(keys.([]any)) == 0, "left behind: %s", keys)
		})
	}
}

// On masters that are well, nothing is left behind but one token counter.
func TestCheckLeavesNothing(t *testing.T) {
	t.Parallel()
	fleet := listed(t, 3)
	before := testkit.Do(t, fleet.Masters[0], "DBSIZE").(int64)
	for range 3 {
		printed, _ := clitest.Command(t, cli.ExitOK, append([]string{"check"}, fleet.URLs()...)...)
		clitest.Contains(t, printed, "3 of 3 masters are fit for locks.\nA lock was acquired, renewed and released on 3 of these, each time alone")
		keys := testkit.Do(t, fleet.Masters[0], "DBSIZE").(int64)
		testkit.Check(t, keys <= before+1, "%d keys, before it %d", keys, before)
	}
	printed, _ := clitest.Command(t, cli.ExitOK, append([]string{"check", "-json"}, fleet.URLs()...)...)
	var report checkReport
	err := json.Unmarshal([]byte(printed), &report)
	testkit.Check(t, err == nil && report.Masters[2].Tried && report.Granting == 3, "%v: %+v", err, report)
	testkit.Do(t, fleet.Masters[0], "CONFIG", "SET", "min-replicas-to-write", "1")
	printed, _ = clitest.Command(t, cli.ExitFailed, append([]string{"check", "-json"}, fleet.URLs()...)...)
	clitest.Contains(t, printed, `"error": "write: NOREPLICAS`, `"tried": false`)
	// -wait is content with the others, -wait-all is not.
	clitest.Command(t, cli.ExitOK, append([]string{"check", "-wait", "10ms"}, fleet.URLs()...)...)
	clitest.Command(t, cli.ExitFailed, append([]string{"check", "-wait-all", "10ms"}, fleet.URLs()...)...)
	_, errs := clitest.Command(t, cli.ExitUsage, "check", "-name", "quorumlock:x", fleet.URLs()[0])
	clitest.Contains(t, errs, "-name needs a lock's name")
}

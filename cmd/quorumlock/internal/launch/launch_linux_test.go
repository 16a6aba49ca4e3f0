package launch

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	Become()
	os.Exit(m.Run())
}

// The program ends with its parent, on any thread of the process that waited.
func TestTheProgramKeepsTheSignalOfItsParentsDeath(t *testing.T) {
	perl := testkit.Got(exec.LookPath("perl"))(t)
	const isSet = `$s = pack("i", 0); syscall($ARGV[0], 2, $s, 0, 0, 0); exit(unpack("i", $s) == 9 ? 0 : 1)` // PR_GET_PDEATHSIG
	prctl := strconv.Itoa(unix.SYS_PRCTL)
	for i := range 150 {
		p := testkit.Got(Start(perl, []string{"perl", "-e", isSet, prctl}, append(os.Environ(), "GOGC=1", "GOMAXPROCS=1"),
			&syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}))(t)
		testkit.Must(t, p.Go())
		var status syscall.WaitStatus
		testkit.Got(syscall.Wait4(p.PID, &status, 0, nil))(t)
		testkit.Require(t, status.ExitStatus() == 0, "program %d: status %v: the signal is not set", i, status)
	}
}

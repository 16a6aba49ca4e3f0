//go:build unix

package masters_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// The commands present a certificate to masters that ask for one: by flags, or by the file of URLs.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	dir, port, _ := startTLS(t)
	url := "rediss://localhost:" + port
	ca, cert, key := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	printed, _ := clitest.Command(t, cli.ExitFailed, "check", url)
	clitest.Contains(t, printed, "by -cacert FILE, or by cacert=FILE in the list of URLs")
	printed, _ = clitest.Command(t, cli.ExitFailed, "check", "-cacert", ca, url)
	clitest.Contains(t, printed, "-cert FILE and -key FILE")
	printed, _ = clitest.Command(t, cli.ExitFailed, "check", "-cacert", ca, "rediss://127.0.0.1:"+port)
	clitest.Contains(t, printed, "?server-name=HOST")
	flags := []string{"-cacert", ca, "-cert", cert, "-key", key}
	printed, _ = clitest.Command(t, cli.ExitFailed, append(append([]string{"check"}, flags...), url)...)
	clitest.Contains(t, printed, "1 of 1 masters are fit")
	clitest.Command(t, cli.ExitOK, append(append([]string{"admit", "-yes"}, flags...), url)...)

	file := filepath.Join(t.TempDir(), "urls")
	testkit.Must(t, os.WriteFile(file, []byte("cacert="+ca+"\ncert="+cert+" key="+key+"\n"+url+"\n"), 0o600))
	clitest.Command(t, cli.ExitOK, "check", "-urls-file", file)
	job := exec.Command(os.Args[0], "run", "-timeout", "10s", "-urls-file", file, "x", "--", "true") // run changes its process's signals
	job.Env = append(os.Environ(), clitest.Variable+"=1", "GORACE=atexit_sleep_ms=0")
	said, err := job.CombinedOutput()
	testkit.Check(t, err == nil && len(said) == 0, "run: %v, printed %q", err, said)
	clitest.Command(t, cli.ExitFailed, "status", "-timeout", "10s", "-urls-file", file, "x")
	for says, args := range map[string][]string{
		"-cert and -key belong together": {"check", "-cert", cert, url},
		"none: no such file":             {"check", "-cacert", dir + "/none", url},
		"has no certificate in PEM":      {"check", "-cacert", key, url},
		"-cacert needs the path":         {"check", "-cacert", "", url},
	} {
		_, stderr := clitest.Command(t, cli.ExitUsage, args...)
		clitest.Contains(t, stderr, says)
	}
}

// run explains a URL with the wrong scheme, as check does.
func TestRunHintsAtTLS(t *testing.T) {
	t.Parallel()
	_, port, plain := startTLS(t)
	for url, hint := range map[string]string{
		"redis://localhost:" + port: "the port speaks TLS: the URL should begin with rediss://",
		"rediss://" + plain:         "the port speaks without TLS: the URL should begin with redis://",
	} {
		file := filepath.Join(t.TempDir(), "urls")
		testkit.Must(t, os.WriteFile(file, []byte(url), 0o600))
		for _, wait := range []string{"-n", "-w=3s"} {
			_, stderr := clitest.Command(t, cli.ExitUnavailable, "run", "-timeout", "10s", wait, "-urls-file", file, "x", "--", "true")
			clitest.Contains(t, stderr, hint)
		}
	}
}

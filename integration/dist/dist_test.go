// Package dist_test installs and runs what make dist, make image and make release have made: see make dist-test.
package dist_test

import (
	"debug/elf"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

var (
	dir     = flag.String("dist.dir", "", "the directory that make dist wrote")
	version = flag.String("dist.version", "", "the version that it was given")
	image   = flag.String("dist.image", "", "the image that make image made")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *dir == "" {
		fmt.Println("SKIPPED: make dist-test gives these tests what they install")
		return
	}
	os.Exit(m.Run())
}

func TestBinariesAreStatic(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		binary := testkit.Got(elf.Open(filepath.Join(*dir, "quorumlock-linux-"+arch)))(t)
		defer binary.Close()
		for _, p := range binary.Progs {
			testkit.Check(t, p.Type != elf.PT_INTERP, "%s needs a dynamic linker", arch)
		}
	}
}

func TestChecksums(t *testing.T) {
	cmd := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	cmd.Dir = *dir
	out, err := cmd.CombinedOutput()
	testkit.Require(t, err == nil, "%v\n%s", err, out)
	files := testkit.Got(os.ReadDir(*dir))(t)
	listed := strings.Count(string(out), "\n")
	testkit.Check(t, listed == len(files)-1, "%d files, %d of them in SHA256SUMS", len(files), listed)
}

// Each binary has an SBOM of its own, of all modules in it. NOTICE names each with its licence, and LICENSES has the text.
func TestSBOM(t *testing.T) {
	notice, licences := testkit.Read(t, filepath.Join(*dir, "NOTICE")), testkit.Read(t, filepath.Join(*dir, "LICENSES"))
	for _, text := range []string{"Apache License", "Mozilla Public License, version 2.0", "MIT License", "Copyright 2009 The Go Authors"} {
		testkit.Check(t, strings.Contains(licences, text), "LICENSES lacks the text of the %s", text)
	}
	for _, target := range []string{"linux-amd64", "linux-arm64", "darwin-arm64"} {
		wantSBOM(t, filepath.Join(*dir, "quorumlock-"+target), notice, licences)
	}
}

func wantSBOM(t *testing.T, binary, notice, licences string) {
	t.Helper()
	text := testkit.Read(t, binary+".cdx.json")
	var bom struct {
		BOMFormat  string
		Metadata   struct{ Component struct{ Version string } }
		Components []struct{ PURL string }
	}
	testkit.Must(t, json.Unmarshal([]byte(text), &bom))
	testkit.Check(t, bom.BOMFormat == "CycloneDX" && bom.Metadata.Component.Version == *version, "%+v", bom)
	for line := range strings.Lines(run(t, "go", "version", "-m", binary)) { // "dep path version sum"
		if f := strings.Fields(line); f[0] == "dep" {
			testkit.Check(t, strings.Contains(text, `"pkg:golang/`+f[1]+"@"+f[2]+`"`), "the SBOM lacks %s %s", f[1], f[2])
			testkit.Check(t, strings.Contains(notice, f[1]), "NOTICE lacks %s", f[1])
			testkit.Check(t, strings.Contains(licences, "==== "+f[1]+" "+f[2]+": LICENSE"), "LICENSES lacks %s %s", f[1], f[2])
		}
	}
}

func TestDebInstalls(t *testing.T) {
	need(t, "dpkg")
	root := t.TempDir()
	for _, d := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates"} {
		testkit.Must(t, os.MkdirAll(filepath.Join(root, d), 0o755))
	}
	testkit.Must(t, os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o600))
	run(t, "dpkg", "--root="+root, "--force-not-root", "--install", one(t, "*_"+runtime.GOARCH+".deb"))
	installed(t, root, "vendor-completions", "usr/share/doc/quorumlock")
	run(t, "dpkg", "--root="+root, "--force-not-root", "--purge", "quorumlock")
	_, err := os.Stat(filepath.Join(root, "usr/bin/quorumlock"))
	testkit.Check(t, errors.Is(err, os.ErrNotExist), "purged, and still there: %v", err)
}

func TestRPMInstalls(t *testing.T) {
	need(t, "rpm")
	root := t.TempDir()
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	run(t, "rpm", "--root="+root, "--dbpath=/var/lib/rpm", "--nodeps", "--noscripts", "--install", one(t, "*."+arch+".rpm"))
	installed(t, root, "site-functions", "usr/share/licenses/quorumlock")
}

// installed checks what a package put below root.
func installed(t *testing.T, root, zsh, licences string) {
	t.Helper()
	for _, file := range []string{"NOTICE", "LICENSES"} {
		testkit.Check(t, testkit.Read(t, filepath.Join(root, licences, file)) == testkit.Read(t, filepath.Join(*dir, file)), "another %s", file)
	}
	command := filepath.Join(root, "usr/bin/quorumlock")
	said := run(t, command, "version")
	testkit.Check(t, strings.HasPrefix(said, "quorumlock "+*version), "version: %s", said)
	for shell, file := range map[string]string{"bash": "bash-completion/completions/quorumlock",
		"fish": "fish/vendor_completions.d/quorumlock.fish", "zsh": "zsh/" + zsh + "/_quorumlock"} {
		testkit.Check(t, testkit.Read(t, filepath.Join(root, "usr/share", file)) == run(t, command, "completion", shell),
			"the completion of %s differs from the command's", shell)
	}
	manual := run(t, "gzip", "-dc", filepath.Join(root, "usr/share/man/man1/quorumlock.1.gz"))
	testkit.Check(t, manual == run(t, command, "man"), "the manual differs from the command's: %s", manual)
}

// The image looks at masters, admits them, and runs a job under a lock: its own command, for it has
// no other.
func TestImage(t *testing.T) {
	need(t, "docker")
	made := strings.TrimSpace(run(t, "docker", "create", *image))
	defer run(t, "docker", "rm", made)
	for _, file := range []string{"NOTICE", "LICENSES"} {
		copied := filepath.Join(t.TempDir(), file)
		run(t, "docker", "cp", made+":/"+file, copied)
		testkit.Check(t, testkit.Read(t, copied) == testkit.Read(t, filepath.Join(*dir, file)), "another %s", file)
	}
	urls := testkit.Real(t, 3).URLs()
	image := func(args ...string) string {
		return run(t, "docker", append([]string{"run", "--rm", "--network=host", "--read-only", "--cap-drop=ALL",
			"--env=QUORUMLOCK_URLS=" + strings.Join(urls, " "), *image}, args...)...)
	}
	said := image("version")
	testkit.Check(t, strings.HasPrefix(said, "quorumlock "+*version), "version: %s", said)
	image(append([]string{"admit", "-yes"}, urls...)...)
	said = image("run", "hello", "--", "/quorumlock", "version")
	testkit.Check(t, strings.Contains(said, *version), "run: %s", said)
	said = image("check")
	testkit.Check(t, strings.Count(said, "127.0.0.1") >= len(urls), "check: %s", said)
}

func one(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(*dir, pattern))
	testkit.Require(t, err == nil && len(found) == 1, "%s: %v, %v", pattern, found, err)
	return found[0]
}

func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("SKIPPED, needs %s: %v", program, err)
	}
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	testkit.Require(t, err == nil, "%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, errs.String())
	return string(out)
}

package main

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/redistest"
)

const startBound = time.Minute

// keep runs the members until its input ends, however this process does, and removes their data. In memory, where there
// is room for their logs, fsync costs nothing.
const keep = `
trap "" INT
[ "$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 {print $4}')" -gt 1000000 ] 2>/dev/null && TMPDIR=/dev/shm
dir=$(mktemp -d "${TMPDIR:-/tmp}/quorumlock-etcd-XXXXXX") || exit 1
for member in $members; do
	IFS=, read -r name client peer <<-END
		$member
	END
	etcd --name $name --data-dir "$dir/$name" --listen-client-urls $client --advertise-client-urls $client \
		--listen-peer-urls $peer --initial-advertise-peer-urls $peer --initial-cluster $cluster \
		--logger zap --log-level error >&2 &
	pids="$pids $!"
done
echo "$dir"
cat >/dev/null
kill -9 $pids
wait
rm -rf "$dir"`

// startEtcd starts three members, and returns their URLs, or none if there is no etcd.
func startEtcd(b *testing.B) (endpoints []string) {
	version, err := exec.Command("etcd", "--version").Output()
	if err != nil {
		b.Logf("SKIPPED, needs etcd (make etcd): %v", err)
		return nil
	}
	var members, cluster []string
	for i := range 3 {
		var urls [2]string
		for k := range urls {
			port, held, err := redistest.ClaimPort()
			must(b, err)
			b.Cleanup(func() { held.Close() })
			urls[k] = fmt.Sprintf("http://127.0.0.1:%d", port)
		}
		members = append(members, fmt.Sprintf("m%d,%s,%s", i, urls[0], urls[1]))
		cluster, endpoints = append(cluster, fmt.Sprintf("m%d=%s", i, urls[1])), append(endpoints, urls[0])
	}
	keeper := exec.Command("sh", "-c", keep)
	keeper.Env = append(keeper.Environ(), "members="+strings.Join(members, " "), "cluster="+strings.Join(cluster, ","),
		"ETCD_UNSUPPORTED_ARCH="+runtime.GOARCH)
	in, err := keeper.StdinPipe()
	must(b, err)
	out, err := keeper.StdoutPipe()
	must(b, err)
	must(b, keeper.Start())
	b.Cleanup(func() { in.Close(); must(b, keeper.Wait()) })
	dir, err := bufio.NewReader(out).ReadString('\n')
	must(b, err)
	first, _, _ := strings.Cut(strings.TrimPrefix(string(version), "etcd Version: "), "\n")
	fmt.Printf("etcd: 3 etcd %s processes, data in %s\n", first, filepath.Dir(dir))
	return endpoints
}

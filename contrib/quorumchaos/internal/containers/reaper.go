package containers

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	dc "github.com/ory/dockertest/v3/docker"

	"github.com/quorumlock/quorumlock/internal/backstage"
)

// reaperRun names, in the environment, the run that a copy of the test binary cleans up after.
const reaperRun = "QUORUMLOCK_REAP_RUN"

const (
	tries     = 240 // of what the engine may fail to do: a busy one lists an endpoint long after its container
	tryEvery  = 250 * time.Millisecond
	lateBound = 3 * time.Second // for a request that outlives its process
)

// init makes this process the reaper of another one when its environment asks for that: tests of users
// then need no TestMain.
func init() {
	if run := os.Getenv(reaperRun); run != "" {
		os.Exit(reap(run))
	}
}

// reaper is a process that outlives this one until it has removed everything of its run.
type reaper struct {
	cmd   *exec.Cmd
	alive io.WriteCloser // the reaper's standard input, which ends with this process, however that ends
}

func startReaper(run string) (*reaper, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), reaperRun+"="+run)
	cmd.SysProcAttr = ownGroup() // a terminal's Ctrl-C is for the tests only
	alive, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &reaper{cmd, alive}, nil
}

// close makes the reaper remove everything that is left, and waits for it.
func (r *reaper) close() error {
	err := r.alive.Close()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return errors.Join(err, r.cmd.Wait())
}

// reap waits for the end of its parent process, and returns the exit code.
func reap(run string) int {
	said, _ := io.Copy(io.Discard, os.Stdin)
	client, err := dc.NewClientFromEnv()
	if err == nil {
		err = remove(client, run)
	}
	if err == nil && said == 0 {
		time.Sleep(lateBound)
		err = remove(client, run)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "containers: cleaning up:", err)
		return 1
	}
	return 0
}

// remove removes everything with the run's label. A request of the dead process may still be under
// way, so remove repeats until it finds nothing.
func remove(client *dc.Client, run string) error {
	var last error
	for try := 0; ; try++ {
		left, err := list(client, run)
		switch {
		case err == nil && len(left) == 0:
			return nil
		case try == tries:
			return errors.Join(fmt.Errorf("could not remove %q", left), err, last)
		case try > 0:
			time.Sleep(tryEvery)
		}
		last = err
		for _, one := range left {
			kind, id, _ := strings.Cut(one, " ")
			switch kind {
			case "container":
				last = errors.Join(last, client.RemoveContainer(dc.RemoveContainerOptions{ID: id, RemoveVolumes: true,
					Force: true}))
			case "network":
				last = errors.Join(last, client.RemoveNetwork(id))
			case "image":
				last = errors.Join(last, client.RemoveImageExtended(id, dc.RemoveImageOptions{Force: true}))
			}
		}
	}
}

// list names everything with the run's label, as "container ID". Containers come first: what they
// use is removed after them.
func list(client *dc.Client, run string) ([]string, error) {
	filter := map[string][]string{"label": {backstage.Label + "=" + run}}
	var all []string
	containers, err := client.ListContainers(dc.ListContainersOptions{All: true, Filters: filter})
	if err != nil {
		return nil, err
	}
	for _, c := range containers {
		all = append(all, "container "+c.ID)
	}
	networks, err := client.FilteredListNetworks(dc.NetworkFilterOpts{"label": {backstage.Label + "=" + run: true}})
	if err != nil {
		return nil, err
	}
	for _, n := range networks {
		all = append(all, "network "+n.ID)
	}
	images, err := client.ListImages(dc.ListImagesOptions{Filters: filter})
	if err != nil {
		return nil, err
	}
	for _, i := range images {
		all = append(all, "image "+i.ID)
	}
	return all, nil
}

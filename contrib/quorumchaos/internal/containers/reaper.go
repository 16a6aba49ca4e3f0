package containers

import (
	"errors"
	"fmt"
	"strings"
	"time"

	dc "github.com/ory/dockertest/v3/docker"

	"github.com/quorumlock/quorumlock/internal/backstage"
	"github.com/quorumlock/quorumlock/internal/child"
)

// reaperRun names, in the environment, the run that a copy of the test binary cleans up after.
const reaperRun = "QUORUMLOCK_REAP_RUN"

const (
	tries     = 240 // of what the engine may fail to do: a busy one lists an endpoint long after its container
	tryEvery  = 250 * time.Millisecond
	lateBound = 3 * time.Second // for a request that outlives its process
	done      = "done"          // no request is under way
)

// init makes this process the reaper of another one when its environment asks for that: tests of users
// then need no TestMain.
func init() {
	child.BeJanitor(reaperRun, func(run, word string) error {
		client, err := dc.NewClientFromEnv()
		if err == nil {
			err = remove(client, run)
		}
		if err == nil && word != done {
			time.Sleep(lateBound)
			err = remove(client, run)
		}
		return err
	})
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

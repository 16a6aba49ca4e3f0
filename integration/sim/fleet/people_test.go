package fleet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// contenderCounts are how many processes contend for a name; there are namesOfEach names of each kind.
var contenderCounts = []int{2, 8, 32}

// people places the processes of a fleet: as many for each master in each region. A few contend for names,
// with contenders from all regions; each other one has a name of its own.
func people(processes, namesOfEach int) (all []*process) {
	add := func(name string, contenders int) {
		id := len(all)
		at := masterRegions[id%len(masterRegions)]
		all = append(all, &process{id: id, class: class{at, contenders}, name: name,
			random: rand.New(rand.NewPCG(uint64(id), 1))})
	}
	for _, contenders := range contenderCounts {
		for i := range namesOfEach {
			for range contenders {
				add(fmt.Sprintf("wanted by %d, number %d", contenders, i), contenders)
			}
		}
	}
	for len(all) < processes {
		add(fmt.Sprintf("wanted by process %d", len(all)), 1)
	}
	return all
}

// start opens the lockers, one every millisecond, and lets the processes run. A connection begins with all
// scripts: thousands at once would keep the masters busy for longer than a process waits.
func (f *fleet) start(all []*process) error {
	errs := make([]error, len(all))
	var opening sync.WaitGroup
	for i, p := range all {
		opening.Go(func() {
			time.Sleep(time.Duration(i) * time.Millisecond)
			p.locker, errs[i] = f.world.open(p.class.at, fmt.Sprintf("process%d:1", p.id))
		})
	}
	opening.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	f.all = all
	for _, p := range all {
		f.running.Go(func() { f.run(p) })
	}
	return nil
}

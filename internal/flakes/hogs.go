package main

import (
	"os"
	"os/exec"
)

// startHogs starts processes of normal priority that each keep a core busy.
func startHogs(n int) (stop func(), err error) {
	var all []*exec.Cmd
	stop = func() {
		for _, hog := range all {
			hog.Process.Kill()
			hog.Wait()
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for range n {
		hog := exec.Command(self, "-hog")
		// A hog must not outlive this process: it ends when its standard input does.
		if _, err := hog.StdinPipe(); err != nil {
			stop()
			return nil, err
		}
		if err := hog.Start(); err != nil {
			stop()
			return nil, err
		}
		all = append(all, hog)
	}
	return stop, nil
}

// beHog keeps a core busy until its standard input ends.
func beHog() {
	go func() {
		os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}()
	for x := uint64(1); ; x ^= x << 13 { // an empty loop is a linter's defect
	}
}

// Command quorumvet finds code that ignores its lock. With -vettool, go vet's own checks do not run: it goes beside them.
//
//	go install github.com/quorumlock/quorumlock/contrib/quorumvet/cmd/quorumvet@latest
//	go vet ./...
//	go vet -vettool="$(go env GOPATH)/bin/quorumvet" ./... # fails if it is not installed
//
// Package [github.com/quorumlock/quorumlock/contrib/quorumvet] says what it reports.
package main

import (
	"github.com/quorumlock/quorumlock/contrib/quorumvet"
	"golang.org/x/tools/go/analysis/unitchecker"
)

func main() { unitchecker.Main(quorumvet.Analyzer) }

// Command quorumvet finds code that ignores its lock:
//
//	go install github.com/quorumlock/quorumlock/contrib/quorumvet/cmd/quorumvet@latest
//	go vet -vettool=$(which quorumvet) ./...
//
// Package [github.com/quorumlock/quorumlock/contrib/quorumvet] says what it reports.
package main

import (
	"github.com/quorumlock/quorumlock/contrib/quorumvet"
	"golang.org/x/tools/go/analysis/unitchecker"
)

func main() { unitchecker.Main(quorumvet.Analyzer) }

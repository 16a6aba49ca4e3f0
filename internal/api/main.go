// Command api prints what the public packages of this repository export: make api writes it to
// docs/api.txt, which a test compares, so that a reviewer sees each change.
//
// Usage: go run ./internal/api (in the repository's root)
package main

import (
	"fmt"
	"log"
	"os"
)

func main() {
	packages, err := public(".")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprint(os.Stdout, text(packages))
}

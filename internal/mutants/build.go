//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/redistest"
)

const (
	numberEnv = "QUORUMLOCK_LEFT_OUT"
	luaEnv    = "QUORUMLOCK_LUA"
	leftOut   = `package %s

import (
	"os"
	"strconv"
)

var leftOutNumber, _ = strconv.Atoi(os.Getenv("` + numberEnv + `"))

func leftOut(number int) bool { return number == leftOutNumber }
`
	// luaReader reads the scripts when a process begins: from that directory, except the file that luaEnv names.
	luaReader = `
type leftOutLua struct{}

func (leftOutLua) ReadFile(name string) ([]byte, error) {
	path := filepath.Join(%q, name)
	if edited := os.Getenv("` + luaEnv + `"); filepath.Base(edited) == name {
		path = edited
	}
	text, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	return text, nil
}
`
	embedded = "//go:embed *.lua\nvar lua embed.FS"
)

// read returns the mutants of the files, and writes the overlay with which all are compiled. The server compiles Lua.
func read(dir string, server *redistest.Master, patterns []string) (mutants []mutant, overlay string, err error) {
	replaced := map[string]string{}
	put := func(path, text string) {
		path, _ = filepath.Abs(path)
		replaced[path] = filepath.Join(dir, fmt.Sprintf("%d-%s", len(replaced), filepath.Base(path)))
		err = os.WriteFile(replaced[path], []byte(text), 0o600)
	}
	for _, pattern := range patterns {
		paths, _ := filepath.Glob(pattern)
		paths = slices.DeleteFunc(paths, func(path string) bool { return strings.HasSuffix(path, "_test.go") })
		if len(paths) == 0 {
			return nil, "", fmt.Errorf("no file is called %s", pattern)
		}
		for _, path := range paths {
			source, err := os.ReadFile(path)
			if err != nil {
				return nil, "", err
			}
			if filepath.Ext(path) == ".lua" {
				mutants = append(mutants, mutantsOfLua(server, path, string(source))...)
				continue
			}
			text, more, err := instrument(path, string(source), len(mutants))
			if err != nil {
				return nil, "", err
			}
			mutants = append(mutants, more...)
			put(path, text)
			name, _, _ := strings.Cut(text[len("package "):], "\n")
			put(filepath.Join(filepath.Dir(path), "left_out.go"), fmt.Sprintf(leftOut, name))
		}
	}
	number(mutants)
	if mutants[0].lua != "" {
		for _, pattern := range patterns {
			scripts, _ := filepath.Abs(filepath.Dir(pattern))
			embeds := filepath.Join(scripts, filepath.Base(scripts)+".go")
			source, err := os.ReadFile(embeds)
			if err != nil {
				return nil, "", err
			}
			text := strings.Replace(string(source), embedded, "var lua leftOutLua", 1) + fmt.Sprintf(luaReader, scripts)
			put(embeds, strings.Replace(text, "\t\"embed\"", "\t\"os\"\n\t\"path/filepath\"", 1))
		}
	}
	text, _ := json.Marshal(map[string]any{"Replace": replaced})
	overlay = filepath.Join(dir, "overlay.json")
	if err == nil {
		err = os.WriteFile(overlay, text, 0o600)
	}
	return mutants, overlay, err
}

// number distinguishes mutants with the same name.
func number(mutants []mutant) {
	seen := map[string]int{}
	for i, m := range mutants {
		seen[m.String()]++
		if n := seen[m.String()]; n > 1 {
			mutants[i].edit += fmt.Sprintf(" (%d)", n)
		}
	}
}

// build compiles the tests, and runs them once with nothing left out.
func build(ctx context.Context, dir, overlay string, tests []test) error {
	for i := range tests {
		t := &tests[i]
		t.path = filepath.Join(dir, strings.ReplaceAll(t.module+"/"+t.pkg, "/", "-")+".test")
		cmd := exec.CommandContext(ctx, "go", "test", "-C", filepath.Join(".", t.module), "-c", "-vet=off", "-ldflags=-w",
			"-overlay", overlay, "-o", t.path, "./"+t.pkg)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", t.pkg, err, out)
		}
		begun := time.Now()
		if out, err := runTest(ctx, dir, mutant{}, 0, t); err != nil {
			return fmt.Errorf("%s, with nothing left out: %w\n%s", t.pkg, err, out)
		}
		t.takes = time.Since(begun)
		fmt.Printf("%s %s takes %v\n", t.pkg, strings.Join(t.args, " "), t.takes.Round(time.Second/10))
	}
	return nil
}

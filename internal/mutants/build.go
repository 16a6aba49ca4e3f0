//go:build unix

package main

import (
	"fmt"
	gobuild "go/build"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/internal/mutants/overlay"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

const (
	luaEnv = "QUORUMLOCK_LUA"
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

// read returns the mutants of the files, and the overlay with which all are compiled. The server compiles Lua.
func read(dir string, server *redistest.Master, patterns []string) (mutants []mutant, edited *overlay.Overlay, err error) {
	edited = overlay.New(dir)
	for _, pattern := range patterns {
		paths, _ := filepath.Glob(pattern)
		paths = slices.DeleteFunc(paths, func(path string) bool {
			isHere, err := gobuild.Default.MatchFile(filepath.Dir(path), filepath.Base(path)) // on this system
			return strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".go") && err == nil && !isHere
		})
		if len(paths) == 0 {
			return nil, nil, fmt.Errorf("no file is called %s", pattern)
		}
		for _, path := range paths {
			source, err := os.ReadFile(path)
			if err != nil {
				return nil, nil, err
			}
			if filepath.Ext(path) == ".lua" {
				mutants = append(mutants, mutantsOfLua(server, path, string(source))...)
				continue
			}
			text, more, err := instrument(path, string(source), len(mutants))
			if err != nil {
				return nil, nil, err
			}
			mutants = append(mutants, more...)
			text = strings.Replace(text, "var lua embed.FS", embedded, 1) // the text has no comments
			name, _, _ := strings.Cut(text[len("package "):], "\n")
			if err := edited.Edit(path, name, text); err != nil {
				return nil, nil, err
			}
		}
	}
	number(mutants)
	if mutants[0].lua != "" {
		for _, pattern := range patterns {
			scripts, _ := filepath.Abs(filepath.Dir(pattern))
			embeds := filepath.Join(scripts, filepath.Base(scripts)+".go")
			source, err := os.ReadFile(embeds)
			if err != nil {
				return nil, nil, err
			}
			text := strings.Replace(string(source), embedded, "var lua leftOutLua", 1)
			if text == string(source) {
				return nil, nil, fmt.Errorf("%s does not embed its scripts as the others do: %q", embeds, embedded)
			}
			text += fmt.Sprintf(luaReader, scripts)
			if err := edited.Put(embeds, strings.Replace(text, "\t\"embed\"", "\t\"os\"\n\t\"path/filepath\"", 1)); err != nil {
				return nil, nil, err
			}
		}
	}
	return mutants, edited, nil
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

package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const rule = `# What the public packages of this module and of those under contrib/ export, on linux/amd64.
# make api writes this file. A test fails if it differs from the packages.
#
# A name is an exported identifier of the package block: each constant, variable, function and type.
# A method is an exported method of an exported type. Fields are not counted.
`

// noAPI are directories without a public package. Package scripts is none by its documentation.
var noAPI = []string{"bench", "cmd", "integration", "internal", "scripts", "testdata"}

// pkg is a public package.
type pkg struct {
	path           string // of its directory in the repository
	names, methods int
	decls          []string
	internals      []string // the names of the internal packages that it imports
}

// public returns the public packages below a directory, in the order of their paths.
func public(root string) (all []*pkg, err error) {
	err = filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); dir != root && (strings.HasPrefix(name, ".") || slices.Contains(noAPI, name)) {
			return fs.SkipDir
		}
		p, err := load(dir)
		if p != nil && len(p.decls) > 0 {
			p.path = filepath.ToSlash(dir)
			all = append(all, p)
		}
		return err
	})
	return all, err
}

// emptyLines are what comments leave behind that are not printed.
var emptyLines = regexp.MustCompile(`\n(\s*\n)+`)

// load returns the package in a directory, nil for none.
func load(dir string) (*pkg, error) {
	target := build.Default
	target.GOOS, target.GOARCH = "linux", "amd64"
	found, err := target.ImportDir(dir, 0)
	if _, none := err.(*build.NoGoError); none {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range found.GoFiles {
		file, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	documented, err := doc.NewFromFiles(fset, files, dir)
	if err != nil {
		return nil, err
	}
	p := &pkg{}
	for _, imported := range found.Imports {
		if strings.Contains(imported, "/internal/") || strings.HasSuffix(imported, "/scripts") {
			p.internals = append(p.internals, path.Base(imported))
		}
	}
	p.add(fset, documented)
	return p, nil
}

// add adds what the package exports.
func (p *pkg) add(fset *token.FileSet, d *doc.Package) {
	show := func(node any) {
		var b strings.Builder
		printer.Fprint(&b, fset, node) // a strings.Builder returns no error
		p.decls = append(p.decls, emptyLines.ReplaceAllString(b.String(), "\n"))
	}
	values := func(of []*doc.Value) {
		for _, v := range of {
			if v.Decl.Tok == token.CONST {
				show(v.Decl)
			}
			for _, name := range v.Names {
				if !token.IsExported(name) {
					continue
				}
				p.names++
				if v.Decl.Tok == token.VAR { // its value may change
					p.decls = append(p.decls, "var "+name)
				}
			}
		}
	}
	functions := func(of []*doc.Func, count *int) {
		for _, f := range of {
			*count++
			show(f.Decl)
		}
	}
	values(d.Consts)
	values(d.Vars)
	functions(d.Funcs, &p.names)
	for _, t := range d.Types {
		p.names++
		show(t.Decl)
		values(t.Consts)
		values(t.Vars)
		functions(t.Funcs, &p.names)
		functions(t.Methods, &p.methods)
	}
}

// text returns what docs/api.txt has.
func text(packages []*pkg) string {
	var b strings.Builder
	b.WriteString(rule)
	for _, p := range packages {
		fmt.Fprintf(&b, "\n# %s: %d names, %d methods\n\n", p.path, p.names, p.methods)
		for _, decl := range p.decls {
			b.WriteString(decl + "\n")
		}
	}
	return b.String()
}

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// readURLs returns the masters' URLs, from the file or else the environment.
func readURLs(file string) ([]string, error) {
	text, from := os.Getenv(urlsVariable), urlsVariable
	if file != "" {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		text, from = withoutComments(strings.TrimPrefix(string(content), "\ufeff")), file
	}
	urls := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || strings.ContainsRune(" \t\r\n", r) })
	if len(urls) == 0 {
		return nil, fmt.Errorf("no masters in %s: set the variable %s, or use -urls-file",
			from, urlsVariable)
	}
	return urls, nil
}

// withoutComments drops the lines that begin with #.
func withoutComments(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// openMasters opens the masters of the file, or else of the environment, and returns their URLs, too.
// The caller closes them. The error is an *exitError.
func openMasters(file string, files tlsFiles, options ...node.Option) (nodes []*node.Node, urls []string, err error) {
	if urls, err = readURLs(file); err != nil {
		return nil, nil, exitWith(exitConfiguration, err)
	}
	urls = files.take(urls)
	secure, err := files.options()
	if err != nil {
		return nil, nil, exitWith(exitConfiguration, err)
	}
	options = append(options, secure...)
	for i, url := range urls {
		n, err := node.Open(url, options...)
		if err != nil {
			closeAll(nodes)
			return nil, nil, exitWith(exitConfiguration, fmt.Errorf("URL %d: %w", i+1, err))
		}
		nodes = append(nodes, n)
	}
	return nodes, urls, nil
}

// checkLockName returns why an argument is no lock's name, or nil.
func checkLockName(name string) error {
	scheme, _, isURL := strings.Cut(name, "://")
	switch {
	case name == "":
		return errors.New("a name is empty")
	case isURL && strings.Contains(" redis rediss valkey valkeys unix ", " "+scheme+" "):
		return errors.New("the masters' URLs do not belong on the command line, which shows passwords: see " +
			urlsVariable + " and -urls-file")
	case strings.HasPrefix(name, scripts.Prefix):
		return fmt.Errorf("the name %.64q begins with %s, which is for the library's own keys", name, scripts.Prefix)
	}
	return nil
}

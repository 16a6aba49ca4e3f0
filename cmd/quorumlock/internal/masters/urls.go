package masters

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// URLsVariable is the variable that has the masters' URLs.
const URLsVariable = "QUORUMLOCK_URLS"

// words are separated by blanks or commas. A comma before the path of a URL of Sentinel separates its hosts.
var words = regexp.MustCompile(`(?i)(?:redis|valkey)s?\+sentinel://[^/\s]*[^,\s]*|[^,\s]+`)

func readURLs(file string) ([]string, error) {
	text, from := os.Getenv(URLsVariable), URLsVariable
	if file != "" {
		content, err := os.ReadFile(file)
		if failed, ok := errors.AsType[*fs.PathError](err); ok && strings.Contains(file, "@") {
			err = fmt.Errorf("-urls-file: %w", failed.Err) // without the path, which may be a URL's end, with a password
		}
		if err != nil {
			return nil, err
		}
		text, from = comments.ReplaceAllString(strings.TrimPrefix(string(content), "\ufeff"), ""), file
	}
	urls := words.FindAllString(text, -1)
	if len(urls) == 0 {
		return nil, fmt.Errorf("no masters in %s: set the variable %s, or use -urls-file", from, URLsVariable)
	}
	return urls, nil
}

// twoNamed returns which two nodes have one name, or nil. No list has a name twice.
func twoNamed(nodes []*node.Node) error {
	for j, n := range nodes {
		for i, before := range nodes[:j] {
			if n.Name() == before.Name() {
				return fmt.Errorf("%w: URLs %d and %d have one name, %s: give each master once, and two masters two names "+
					"(?name=... in the URL)", node.ErrInvalid, i+1, j+1, n.Name())
			}
		}
	}
	return nil
}

// CheckLockName returns why an argument is not a lock's name, or nil.
func CheckLockName(name string) error {
	scheme, _, isURL := strings.Cut(strings.ToLower(name), "://")
	switch {
	case name == "":
		return errors.New("a name is empty")
	case isURL && (strings.HasPrefix(scheme, "redis") || strings.HasPrefix(scheme, "valkey") || scheme == "unix"):
		return errors.New("the masters' URLs do not belong on the command line, which shows passwords: see " +
			URLsVariable + " and -urls-file")
	case scripts.Reserved(name) != "":
		return fmt.Errorf("the name %.64q begins with %s, which is for the library's own keys", name, scripts.Reserved(name))
	}
	return nil
}

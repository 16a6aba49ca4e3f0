package redistest

import (
	"errors"
	"fmt"
	"strings"
)

// Feature is something that a test needs of its servers and that some of them lack: older versions,
// or those that were built without it.
type Feature struct {
	what         string
	major, minor int                          // of the first version of Redis with it; every Valkey has it
	isBuilt      func(b Binary) (bool, error) // asks the server instead of its version; nil for none
}

// The features in which the versions that the library supports differ for its tests.
var (
	// ACLChannels: ACL rules for channels (&pattern, resetchannels).
	ACLChannels = Feature{what: "ACL rules for channels", major: 6, minor: 2}
	// ClientInfo: CLIENT INFO, which reports a connection's own address and database.
	ClientInfo = Feature{what: "CLIENT INFO", major: 6, minor: 2}
	// PlainScriptErrors: an error within a script comes in the words of a plain command, and a
	// server that may not write refuses a script before its first write. An older one says "ERR
	// Error running script", after whatever the script wrote before.
	PlainScriptErrors = Feature{what: "plain errors of scripts", major: 7, minor: 0}
	// AskedRights: a script may ask what its user may do (redis.acl_check_cmd).
	AskedRights = Feature{what: "redis.acl_check_cmd in scripts", major: 7, minor: 0}
	// TLS: the server was built with TLS.
	TLS = Feature{what: "TLS", isBuilt: hasTLS}
)

// in reports whether a server of that version has the feature.
func (f Feature) in(b Binary) bool {
	var major, minor int
	if _, err := fmt.Sscanf(b.Version, "%d.%d", &major, &minor); err != nil {
		return true // a development version, "unstable"
	}
	return b.Name == "valkey-server" || major > f.major || major == f.major && minor >= f.minor
}

// Has reports whether the servers that [StartReal] starts have the feature.
func Has(f Feature) bool {
	reason, err := Lacks(f)
	return err == nil && reason == ""
}

// Lacks returns the reason why the servers that [StartReal] starts cannot run a test that needs the
// features: no server, or a version that lacks one. It is empty when they can.
func Lacks(needed ...Feature) (reason string, err error) {
	b, err := FindBinary()
	if errors.Is(err, ErrNoServer) {
		return err.Error(), nil
	}
	if err != nil {
		return "", err
	}
	for _, f := range needed {
		if f.isBuilt != nil {
			built, err := f.isBuilt(b)
			if err != nil {
				return "", err
			}
			if !built {
				return fmt.Sprintf("%s was built without %s", b, f.what), nil
			}
			continue
		}
		if !f.in(b) {
			return fmt.Sprintf("%s has no %s (that came with Redis %d.%d)", b, f.what, f.major, f.minor), nil
		}
	}
	return "", nil
}

// skipper is the part of a *testing.T that Need uses. The demo links this package, and package
// testing would add its flags.
type skipper interface {
	Helper()
	Skip(args ...any)
	Fatal(args ...any)
}

// Need skips a test, and says why, if the servers that [StartReal] starts lack a feature.
func Need(t skipper, needed ...Feature) {
	t.Helper()
	reason, err := Lacks(needed...)
	if err != nil {
		t.Fatal(err)
	}
	if reason != "" {
		t.Skip(reason)
	}
}

// SetUser returns the arguments of ACL SETUSER, without the rules for channels if the servers
// that [StartReal] starts know none: every user may use every channel there.
func SetUser(user string, rules ...string) []any {
	hasChannels := Has(ACLChannels)
	args := []any{"ACL", "SETUSER", user}
	for _, rule := range rules {
		isOfChannels := strings.HasPrefix(rule, "&") || rule == "resetchannels" || rule == "allchannels"
		if hasChannels || !isOfChannels {
			args = append(args, rule)
		}
	}
	return args
}

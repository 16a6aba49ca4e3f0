package node

import (
	"cmp"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	defaultPort  = "6379"
	sentinelPort = "26379"
)

var schemes = []string{"redis", "rediss", "valkey", "valkeys", "unix"}

// endpoint is a parsed URL.
type endpoint struct {
	network, address   string // "tcp", host:port or "unix", path
	host               string // for TLS
	tls                bool
	username, password string
	database           int
	name               string // of the query; empty for none
	failover           int    // of the query; 0 for none
	sentinels          *sentinels
}

// parseURL reads a redis, rediss, valkey, valkeys or unix URL, or one of Sentinel. Its errors never repeat the URL,
// which may hold passwords. The query may hold the node's name (?name=a), the database (?db=1), the number of
// replicas (?failover=1), and the name in the server's certificate (?server-name=host). A byte order mark and white space around it
// don't belong to it.
func parseURL(raw string) (endpoint, error) {
	raw = strings.TrimSpace(strings.TrimPrefix(raw, "\ufeff"))
	if strings.IndexAny(raw, "\"'") == 0 {
		return endpoint{}, invalidf("the URL is in quotes, which do not belong to it")
	}
	// url.Parse takes the host of an address without a scheme for the scheme, or gives a misleading
	// reason.
	scheme, rest, found := strings.Cut(raw, ":")
	scheme, isSentinel := strings.CutSuffix(strings.ToLower(scheme), "+sentinel")
	switch isKnown := found && slices.Contains(schemes, scheme) && (!isSentinel || scheme != "unix" && strings.HasPrefix(rest, "//")); {
	case !isKnown && (isSentinel || strings.Contains(scheme, "sentinel") || strings.Contains(raw, ",")):
		return endpoint{}, errSeveral()
	case !isKnown:
		return endpoint{}, errScheme()
	case hasAnother(raw):
		return endpoint{}, errSeveral()
	}
	var others []string // the hosts of the other sentinels
	if isSentinel {
		raw, others = withOneHost(scheme, rest[len("//"):])
	}
	u, err := url.Parse(raw)
	if err != nil {
		return endpoint{}, invalidf("the URL cannot be parsed " +
			"(special characters in a password must be percent-encoded, the port must be a number)")
	}
	path := u.EscapedPath()
	if u.Scheme == "unix" && u.Host == "" && u.User == nil && !strings.Contains(path, ":") {
		path = "" // an @ of the socket's: no password can end there
	}
	if strings.Contains(path+u.RawQuery+u.Fragment, "@") {
		return endpoint{}, invalidf("the URL has an @ after its host " +
			"(in a password, @ must be written %%40, / %%2F, ? %%3F, # %%23)")
	}
	var e endpoint
	database := strings.TrimPrefix(u.Path, "/")
	switch u.Scheme {
	case "rediss", "valkeys":
		e.tls = true
		fallthrough
	case "redis", "valkey":
		if u.Opaque != "" { // "redis:6379": redis is the host's name
			return endpoint{}, errScheme()
		}
		if strings.Contains(u.Host, ",") {
			return endpoint{}, errSeveral()
		}
		e.network = "tcp"
		if isSentinel {
			if e.sentinels, err = parseSentinels(u, others); err != nil {
				return endpoint{}, err
			}
			e.address, database = strings.Join(e.sentinels.addresses, ",")+"/"+e.sentinels.master, ""
		} else if e.host, e.address, err = hostPort(u, defaultPort); err != nil {
			return endpoint{}, err
		}
	case "unix":
		if u.Host != "" || u.Path == "" || u.Path == "/" {
			return endpoint{}, invalidf("a unix URL is unix:///path/to/socket, " +
				"with credentials as unix://user:password@/path")
		}
		e.network, e.address, database = "unix", u.Path, ""
	}

	if u.User != nil {
		e.username = u.User.Username()
		e.password, _ = u.User.Password()
		if e.username != "" && e.password == "" {
			return endpoint{}, invalidf("the URL has a user name but no password " +
				"(a password alone is written :password@host)")
		}
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return endpoint{}, invalidf("the URL's query cannot be parsed")
	}
	for key, values := range query {
		switch {
		case key == "name" && len(values) == 1 && values[0] != "":
			e.name = values[0]
		case key == "failover" && len(values) == 1:
			if e.failover, err = strconv.Atoi(values[0]); err != nil {
				return endpoint{}, invalidf("the URL's failover is a number of replicas, not a duration or other text, as in ?failover=1")
			} else if e.failover < 1 || e.failover > maxCopies {
				return endpoint{}, errReplicas()
			}
		case key == "db" && len(values) == 1 && database == "":
			database = values[0]
		case key == "sentinel-username" && len(values) == 1 && isSentinel:
			e.sentinels.username = values[0]
		case key == "sentinel-password" && len(values) == 1 && values[0] != "" && isSentinel:
			e.sentinels.password = values[0]
		case isSentinel && key != "server-name": // not repeated: it may be the rest of a password
			return endpoint{}, invalidf("the URL's query may contain one failover=N, name=..., db=N, sentinel-username=... and " +
				"sentinel-password=... (special characters percent-encoded)")
		case key == "server-name" && len(values) == 1 && values[0] != "" && e.tls:
			e.host = values[0]
		default:
			return endpoint{}, invalidf("the URL's query may contain one name=..., one failover=N, one db=N if the path names no database, "+
				"and with TLS one server-name=...; not one %q", key)
		}
	}
	if isSentinel && e.sentinels.username != "" && e.sentinels.password == "" {
		return endpoint{}, invalidf("the URL has a sentinel-username but no sentinel-password")
	}
	if u.Fragment != "" {
		return endpoint{}, invalidf("the URL has a fragment (a # in a password must be written %%23)")
	}
	if database != "" {
		if e.database, err = strconv.Atoi(database); err != nil || e.database < 0 {
			// The message does not repeat the path: after an unescaped / it holds the rest of the
			// password.
			return endpoint{}, invalidf("the URL's path is not a database number " +
				"(a / in a password must be written %%2F)")
		}
	}
	return e, nil
}

// hostPort returns the host of a URL, and its address.
func hostPort(u *url.URL, defaultPort string) (host, address string, err error) {
	host, port := u.Hostname(), cmp.Or(u.Port(), defaultPort)
	if host == "" {
		return "", "", invalidf("the URL names no host")
	}
	if strings.Contains(host, ":") && !strings.HasPrefix(u.Host, "[") {
		return "", "", invalidf("the URL's host has more than one colon")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", "", invalidf("the URL's port is not between 1 and 65535")
	}
	return host, net.JoinHostPort(host, port), nil
}

// hasAnother reports whether another URL follows, after a blank or a comma. It would be taken for a part of the
// first one's name: a lock on one master.
func hasAnother(raw string) bool {
	separator := strings.LastIndexAny(raw, " \t\r\n,")
	return separator >= 0 && strings.Contains(raw[separator:], "://")
}

func errSeveral() error {
	return invalidf("clusters and several hosts are not supported: give each master a URL of its own, one string for each " +
		"(for Sentinel redis+sentinel://host:26379,host:26379/master?failover=1)")
}

// errScheme does not repeat an unknown scheme: in user:password@host it is the user name, which may
// be a secret too.
func errScheme() error {
	return invalidf("the URL's scheme is missing or unknown: " +
		"it begins with redis://, rediss://, valkey://, valkeys:// or unix://, as in redis://10.0.0.1:6379")
}

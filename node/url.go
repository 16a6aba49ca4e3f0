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
	sentinels          *sentinels
}

// parseURL reads a redis, rediss, valkey, valkeys or unix URL, or one of Sentinel. Its errors never repeat the URL,
// which may hold passwords. The query may hold the database (?db=1), the name in the server's certificate
// (?server-name=host), and what goes to the options: the node's name (?name=a), the prefix (?prefix=a) and the number of
// replicas (?failover=1). A byte order mark and white space around it don't belong to it.
func parseURL(raw string, o *options) (endpoint, error) {
	u, sentinels, err := splitURL(strings.TrimSpace(strings.TrimPrefix(raw, "\ufeff")))
	if err != nil {
		return endpoint{}, err
	}
	var e endpoint
	database, err := e.readAuthority(u, sentinels)
	if err == nil {
		database, err = e.readQuery(u.RawQuery, database, o)
	}
	switch {
	case err != nil:
		return endpoint{}, err
	case u.Fragment != "":
		return endpoint{}, invalidf("the URL has a fragment (a # in a password must be written %%23)")
	case database == "":
		return e, nil
	}
	if e.database, err = strconv.Atoi(database); err != nil || e.database < 0 {
		// The message does not repeat the path: after an unescaped / it holds the rest of the
		// password.
		return endpoint{}, invalidf("the URL's path is not a database number " +
			"(a / in a password must be written %%2F)")
	}
	return e, nil
}

// splitURL checks the scheme, and that one URL is there. A URL of Sentinel comes back with its first host, next to all of
// them.
func splitURL(raw string) (u *url.URL, sentinels []string, err error) {
	if strings.IndexAny(raw, "\"'") == 0 {
		return nil, nil, invalidf("the URL is in quotes, which do not belong to it")
	}
	// url.Parse takes the host of an address without a scheme for the scheme, or gives a misleading
	// reason.
	scheme, rest, found := strings.Cut(raw, ":")
	scheme, isSentinel := strings.CutSuffix(strings.ToLower(scheme), "+sentinel")
	switch isKnown := found && slices.Contains(schemes, scheme) && (!isSentinel || scheme != "unix" && strings.HasPrefix(rest, "//")); {
	case !isKnown && (isSentinel || strings.Contains(scheme, "sentinel") || strings.Contains(raw, ",")):
		return nil, nil, errSeveral()
	case !isKnown:
		return nil, nil, errScheme()
	case hasAnother(raw):
		return nil, nil, invalidf("these are several URLs: give each a string of its own " +
			"(strings.Fields splits a text; zsh splits a variable if it is ${=NAME})")
	}
	if isSentinel {
		raw, sentinels = withOneHost(scheme, rest[len("//"):])
	}
	if u, err = url.Parse(raw); err != nil {
		return nil, nil, invalidf("the URL cannot be parsed " +
			"(special characters in a password must be percent-encoded, the port must be a number)")
	}
	path := u.EscapedPath()
	if u.Scheme == "unix" && u.User == nil && !strings.Contains(path, ":") {
		path = "" // an @ of the socket's: no password can end there
	}
	if strings.Contains(path+u.RawQuery+u.Fragment, "@") {
		return nil, nil, invalidf("the URL has an @ after its host " +
			"(in a password, @ must be written %%40, / %%2F, ? %%3F, # %%23)")
	}
	return u, sentinels, nil
}

// readAuthority reads where the server is, and with which user. It returns the database of the path.
func (e *endpoint) readAuthority(u *url.URL, sentinels []string) (database string, err error) {
	database = strings.TrimPrefix(u.Path, "/")
	switch {
	case u.Scheme == "unix":
		if u.Host != "" || u.Path == "" || u.Path == "/" {
			return "", invalidf("a unix URL is unix:///path/to/socket, " +
				"with credentials as unix://user:password@/path")
		}
		e.network, e.address, database = "unix", u.Path, ""
	case u.Opaque != "": // "redis:6379": redis is the host's name
		return "", errScheme()
	case strings.Contains(u.Host, ","):
		return "", errSeveral()
	case sentinels != nil:
		if e.sentinels, err = parseSentinels(u, sentinels); err != nil {
			return "", err
		}
		e.network, e.address, database = "tcp", strings.Join(e.sentinels.addresses, ",")+"/"+e.sentinels.master, ""
	default:
		e.network = "tcp"
		if e.host, e.address, err = hostPort(u, defaultPort); err != nil {
			return "", err
		}
	}
	e.tls = u.Scheme == "rediss" || u.Scheme == "valkeys"
	e.username = u.User.Username()
	e.password, _ = u.User.Password()
	if e.username != "" && e.password == "" {
		return "", invalidf("the URL has a user name but no password " +
			"(a password alone is written :password@host)")
	}
	return database, nil
}

// readQuery reads the query, and returns the database: that of the path, or the query's.
func (e *endpoint) readQuery(raw, database string, o *options) (string, error) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return "", invalidf("the URL's query cannot be parsed")
	}
	for key, values := range query {
		value, isOne := "", len(values) == 1
		if isOne {
			value = values[0]
		}
		switch {
		case key == "name" && value != "":
			err = agree(o.name != "", &o.name, value, "the URL names the node %q, WithName %q")
		case key == "failover" && isOne:
			replicas, notNumber := strconv.Atoi(value)
			if notNumber != nil {
				return "", invalidf("the URL's failover is a number of replicas, not a duration or other text, as in ?failover=1")
			}
			o.failoverSet, err = true, agree(o.failoverSet, &o.failover, replicas, "the URL says %d replicas, WithFailover %d")
		case key == "prefix" && isOne:
			o.prefixSet, err = true, agree(o.prefixSet, &o.prefix, value, "the URL says the prefix %q, WithPrefix %q")
		case key == "db" && isOne && database == "":
			database = value
		case key == "sentinel-username" && value != "" && e.sentinels != nil:
			e.sentinels.username = value
		case key == "sentinel-password" && value != "" && e.sentinels != nil:
			e.sentinels.password = value
		case e.sentinels != nil && key != "server-name": // not repeated: it may be the rest of a password
			return "", invalidf("the URL's query may contain one failover=N, name=..., prefix=..., db=N, sentinel-username=... and " +
				"sentinel-password=... (special characters percent-encoded)")
		case key == "server-name" && value != "" && e.tls:
			e.host = value
		default:
			return "", invalidf("the URL's query may contain one name=..., one prefix=..., one failover=N, one db=N if the path names no database, "+
				"and with TLS one server-name=...; not one %q", key)
		}
		if err != nil {
			return "", err
		}
	}
	if e.sentinels != nil && e.sentinels.username != "" && e.sentinels.password == "" {
		return "", invalidf("the URL has a sentinel-username but no sentinel-password")
	}
	return database, nil
}

// agree sets an option to what the URL says, unless another value was given.
func agree[T comparable](isGiven bool, option *T, value T, format string) error {
	if isGiven && *option != value {
		return invalidf(format, value, *option)
	}
	*option = value
	return nil
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
	if n, _ := strconv.Atoi(port); n < 1 || n > 65535 {
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

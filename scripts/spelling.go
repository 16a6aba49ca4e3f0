package scripts

import (
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// Canonical returns the canonical spelling of a master's name, so that clients that spell an address in different
// ways have the same list. A name of the form host:port, with or without the number of a database, is an address:
// its host is in lower case, a domain without a trailing dot and an IP address in one form, and its port has no
// leading zeros. A prefix stays as it is. Any other name stays as it was given: the path of a socket, a name without a port, a host that
// is not ASCII. Masters with the same canonical name are the same master.
func Canonical(name string) string {
	rest := ""
	if at := strings.Index(name, prefixSign); at >= 0 {
		name, rest = name[:at], name[at:]
	}
	if slash := strings.LastIndexByte(name, '/'); slash > 0 && isNumber(name[slash+1:]) {
		name, rest = name[:slash], name[slash:]+rest
	}
	host, port, err := net.SplitHostPort(name)
	number, notNumber := strconv.ParseUint(port, 10, 16)
	if err != nil || notNumber != nil || number == 0 {
		return name + rest
	}
	switch ip, err := netip.ParseAddr(host); {
	case err == nil:
		host = ip.Unmap().String()
	case isHost.MatchString(host):
		host = strings.ToLower(host)
		if bare := strings.TrimSuffix(host, "."); strings.Contains(bare, ".") { // a single word keeps its dot, against search domains
			host = bare
		}
	default:
		return name + rest
	}
	return net.JoinHostPort(host, strconv.FormatUint(number, 10)) + rest
}

// isHost matches the name of a host.
var isHost = regexp.MustCompile(`^[0-9A-Za-z_-]+(\.[0-9A-Za-z_-]+)*\.?$`)

func isNumber(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

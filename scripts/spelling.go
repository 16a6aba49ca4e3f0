package scripts

import (
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// Canonical returns the one spelling of a master's name. Clients that spell an address in different ways have the same
// list. A name of the form host:port, with the number of a database behind it or without, is an address: its host has no
// capitals, no dot behind a domain, and one form of each IP address; its port has no leading zeros. Any other name is as it
// was given: the path of a socket, a name without a port, a host that is not ASCII. Two masters that differ in no more
// than that are one.
func Canonical(name string) string {
	database := ""
	if slash := strings.LastIndexByte(name, '/'); slash > 0 && isNumber(name[slash+1:]) {
		name, database = name[:slash], name[slash:]
	}
	host, port, err := net.SplitHostPort(name)
	number, notNumber := strconv.ParseUint(port, 10, 16)
	if err != nil || notNumber != nil || number == 0 || !isNumber(port) {
		return name + database
	}
	switch ip, err := netip.ParseAddr(host); {
	case err == nil:
		host = ip.Unmap().String()
	case isHost.MatchString(host):
		host = strings.ToLower(host)
		if bare := strings.TrimSuffix(host, "."); strings.Contains(bare, ".") { // the dot behind a single word keeps search domains away
			host = bare
		}
	default:
		return name + database
	}
	return net.JoinHostPort(host, strconv.FormatUint(number, 10)) + database
}

// isHost matches the name of a host.
var isHost = regexp.MustCompile(`^[0-9A-Za-z_-]+(\.[0-9A-Za-z_-]+)*\.?$`)

func isNumber(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

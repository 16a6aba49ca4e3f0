package redisconn

import (
	"errors"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// What the words of several versions of Redis mean: with "nothing done" the reply to a request for a grant proves that, and
// with "keys" the same call with other keys may succeed. TestRefusalsThatProveNothingDone of package node asks a server.
func TestWhatErrorRepliesMean(t *testing.T) {
	meanings := []struct {
		name string
		is   func(error) bool
	}{
		{"all", RefusesAll}, {"writes", RefusesWrites}, {"keys", RefusesKeys}, {"no master", NotAMaster}, {"credentials", RefusesCredentials},
		{"user", ForbidsUser}, {"command", LacksCommand}, {"engine", LacksEngine}, {"lasts", Lasts}, {"nothing done", ProvesNothingDone},
	}
	const script6 = "ERR Error running script (call to f_1): @user_script:85: @user_script: 85: "
	for reply, want := range map[string]string{
		"WRONGTYPE Operation against a key holding the wrong kind of value": "keys, lasts, nothing done",
		"QUORUMLOCK what is at the name is not a lock":                      "keys, lasts, nothing done",
		script6 + "WRONGTYPE Operation against a key":                       "keys, lasts",
		"ERR something else": "keys",
		"":                   "keys",
		"ERR no script: OOM and: -LOADING are its words": "keys",
		"UNKILLABLE Sorry the script already executed":   "keys",

		"LOADING Redis is loading the dataset in memory":                                               "all, no master, nothing done",
		"BUSY Redis is busy running a script.":                                                         "all, nothing done",
		"BUSYKEY what is this":                                                                         "keys",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":             "all, no master, nothing done",
		"OOM command not allowed when used memory > 'maxmemory'.":                                      "writes, nothing done",
		script6 + "-OOM command not allowed":                                                           "writes",
		"MISCONF Errors writing to the AOF file":                                                       "writes, nothing done",
		script6 + "-MISCONF Redis is configured to save":                                               "writes",
		"NOREPLICAS Not enough good replicas to write.":                                                "writes, nothing done",
		"READONLY You can't write against a read only replica.":                                        "no master, lasts, nothing done",
		"READONLY You can't write against a read only replica. script: f, on @user_script:88.":         "no master, lasts, nothing done",
		script6 + "-READONLY You can't write against a read only replica.":                             "no master, lasts",
		script6 + "READONLYX":                                                                          "keys",
		"CLUSTERDOWN The cluster is down":                                                              "keys",
		"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)": "keys",
		"NOSCRIPT No matching script.":                                                                 "",

		"NOAUTH Authentication required.":                                                                                       "credentials, lasts, nothing done",
		"WRONGPASS invalid username-password pair or user is disabled.":                                                         "keys, credentials, lasts",
		"NOPERM No permissions to access a key":                                                                                 "keys, user, lasts, nothing done",
		"NOPERM this user has no permissions to run the 'evalsha' command":                                                      "keys, user, lasts, nothing done",
		"NOPERM ACL failure in script: User app has no permissions to run the 'pexpire' command script: f, on @user_script:88.": "keys, user, lasts",
		"ERR ACL failure in script: User app has no permissions to run the 'pexpire' command":                                   "keys, user, lasts",
		"ERR The user executing the script can't run this command or subcommand script: f, on @user_script:85.":                 "keys, user, lasts",
		script6 + "The user executing the script can't run this command or subcommand":                                          "keys, user, lasts",

		"ERR unknown command 'EVALSHA', with args beginning with: ":                     "keys, command, lasts",
		"ERR unknown command `EVALSHA`, with args beginning with: ":                     "keys, command, lasts",
		"ERR Unknown Redis command called from script script: 1234, on @user_script:3.": "keys, command, lasts",
		"ERR Unknown command called from script script: 1234, on @user_script:3.":       "keys, command, lasts",
		script6 + "Unknown Redis command called from Lua script ":                       "keys, command, lasts",
		"ERR Could not find scripting engine 'lua'":                                     "keys, engine, lasts",
	} {
		var means []string
		for _, m := range meanings {
			if m.is(redis.Error(reply)) {
				means = append(means, m.name)
			}
		}
		testkit.Equal(t, strings.Join(means, ", "), want, reply)
	}
	for err, want := range map[error]string{
		redis.Error("OOM no"): "OOM", redis.Error("ERR unknown command"): "ERR", redis.Error("ODD no"): "ERR", errors.New("OOM"): "",
	} {
		testkit.Equal(t, Code(err), want, err)
	}
	for _, m := range meanings {
		testkit.Check(t, !m.is(errors.New("connection reset")), "a broken connection means %s", m.name)
	}
}

// What INFO says of replicas, and of keys that go when memory is short.
func TestInfo(t *testing.T) {
	const replica = ":ip=10.0.0.1,port=6379,state=online,offset=1\r\n"
	for text, want := range map[string]struct {
		evicts bool
		twice  string
	}{
		"maxmemory:1\r\nmaxmemory_policy:allkeys-lru\r\n": {evicts: true},
		"maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n": {},
		"maxmemory:1\r\nmaxmemory_policy:noeviction\r\n":  {},
		"maxmemory:1\r\n":                                                                            {},
		"slave0" + replica + "slave1" + replica:                                                      {twice: "10.0.0.1:6379"},
		"slave0" + replica + "slave1:ip=10.0.0.1,port=6380\r\n":                                      {},
		"slave0" + replica + "slave1:ip=10.0.0.2,port=6379\r\n":                                      {},
		"listener0:name=tcp,bind=*,port=6379\r\nlistener1:name=tls,bind=*,port=6379\r\n":             {}, // Redis 7.2
		"# Server\r\nredis_mode:standalone\r\n# Replication\r\nrole:master\r\n" + "slave0" + replica: {},
	} {
		info := ReadInfo([]byte(text))
		testkit.Equal(t, info.Evicts(), want.evicts, text)
		testkit.Equal(t, info.TwoReplicasAt(), want.twice, text)
	}
}

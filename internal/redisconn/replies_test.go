package redisconn

import (
	"errors"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// A call that was refused for its keys may succeed with other keys. A server that refuses every
// command or every write refuses those, too.
func TestRefusesKeys(t *testing.T) {
	for err, want := range map[error]bool{
		redis.Error("NOPERM No permissions to access a key"):                                            true,
		redis.Error("WRONGTYPE Operation against a key holding the wrong kind of value"):                true,
		redis.Error("QUORUMLOCK what is at the name is not a lock"):                                     true,
		redis.Error("ERR something else"):                                                               true,
		redis.Error("OOM command not allowed when used memory > 'maxmemory'."):                          false,
		redis.Error("ERR Error running script (call to f_1): @user_script:5: -OOM command not allowed"): false,
		redis.Error("MISCONF Errors writing to the AOF file"):                                           false,
		redis.Error("NOREPLICAS Not enough good replicas to write."):                                    false,
		redis.Error("LOADING Redis is loading the dataset in memory"):                                   false,
		redis.Error("BUSY Redis is busy running a script."):                                             false,
		redis.Error("MASTERDOWN Link with MASTER is down"):                                              false,
		redis.Error("NOAUTH Authentication required."):                                                  false,
		redis.Error("READONLY You can't write against a read only replica."):                            false,
		redis.Error("NOSCRIPT No matching script."):                                                     false,
		errors.New("connection reset"):                                                                  false,
	} {
		if got := RefusesKeys(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}

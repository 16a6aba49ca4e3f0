package etcd

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	memory = "/dev/shm"
	// room is what three members take: each allocates two segments of its log, 64 MB each, before it writes.
	room = 1 << 30
)

// dataDirectory returns a directory in memory, where fsync costs nothing, if there is one with room, else that
// of temporary files; and where the data are, for people.
func dataDirectory() (dir, text string) {
	var fs unix.Statfs_t
	switch err := unix.Statfs(memory, &fs); {
	case err != nil:
		text = fmt.Sprintf("no %s (%v)", memory, err)
	case int64(fs.Bavail)*int64(fs.Bsize) < room:
		text = fmt.Sprintf("%s has less than %d MB of room", memory, room>>20)
	default:
		return memory, "data in memory (" + memory + "), so fsync costs nothing"
	}
	dir = os.TempDir()
	return dir, fmt.Sprintf("data in %s, where fsync takes time: %s", dir, text)
}

//go:build !unix

package ownerfile

import "errors"

// File is an owner file. This system has none, because it has no quorumlock run.
type File struct{}

// Open returns an error.
func Open(string, bool) (*File, error) {
	return nil, errors.New("there are no owner files on this system")
}

// Look returns an error.
func Look(path string) (*Record, error) {
	_, err := Open(path, false)
	return nil, err
}

func (*File) Record() *Record { return nil }

func (*File) Remove() {}

func (*File) Close() {}

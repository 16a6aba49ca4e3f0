//go:build unix

package ownerfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// mostText bounds a file, in bytes.
const mostText = 1 << 20

// File is an owner file that this process has locked. The methods of a nil File do nothing.
type File struct {
	path   string
	open   *os.File
	record *Record // nil if no lock is left to release
}

// Open opens and locks a file; create makes an empty one if there is none. The caller closes it. The error is
// [ErrInUse] if a process has it locked, and fs.ErrNotExist if there is no file.
func Open(path string, create bool) (*File, error) {
	flags := os.O_RDWR
	if create {
		flags |= os.O_CREATE
	}
	for {
		open, err := os.OpenFile(path, flags, 0o600)
		if err != nil {
			return nil, fmt.Errorf("the owner file: %w", err)
		}
		f := &File{path: path, open: open}
		err = f.lockAndRead()
		if err == nil && f.isThere() {
			return f, nil
		}
		open.Close()
		if err != nil {
			return nil, fmt.Errorf("the owner file %q: %w", path, err)
		}
		// Another process has replaced or removed it since.
	}
}

func (f *File) lockAndRead() error {
	if info, err := f.open.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, errors.New("it is no regular file"))
	}
	if err := lock(f.open); err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(f.open, mostText))
	if err == nil {
		f.record, err = parse(text)
	}
	return err
}

func lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrInUse
	}
	return err
}

// isThere reports whether the path leads to the file.
func (f *File) isThere() bool {
	mine, err := f.open.Stat()
	there, errThere := os.Lstat(f.path)
	return err == nil && errThere == nil && os.SameFile(mine, there)
}

// Record returns what the file says; nil if it is empty.
func (f *File) Record() *Record {
	if f == nil {
		return nil
	}
	return f.record
}

// Write replaces the file. A reader finds the old text or the new one, also after a crash of the machine, and the path
// always leads to a file that is locked.
func (f *File) Write(r Record) error {
	if f == nil {
		return nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	temporary := f.path + ".new"
	_ = os.Remove(temporary) // of a process that died
	next, err := os.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = lock(next)
	if err == nil {
		_, err = next.Write(append(text, '\n'))
	}
	if err == nil {
		err = next.Sync()
	}
	if err == nil {
		err = os.Rename(temporary, f.path)
	}
	if err != nil {
		next.Close()
		_ = os.Remove(temporary)
		return err
	}
	f.open.Close()
	f.open, f.record = next, &r
	return nil
}

// Remove removes the file: no lock is left to release.
func (f *File) Remove() {
	if f == nil {
		return
	}
	f.record = nil
	if f.isThere() {
		_ = os.Remove(f.path)
	}
}

// Close unlocks the file, for those who have inherited it, too. It removes a file that says nothing.
func (f *File) Close() {
	if f == nil {
		return
	}
	if f.record == nil {
		f.Remove()
	}
	_ = unix.Flock(int(f.open.Fd()), unix.LOCK_UN)
	f.open.Close()
}

// Descriptors returns the descriptors that a job inherits, and keeps the file locked with.
func (f *File) Descriptors() []uintptr {
	if f == nil {
		return nil
	}
	return []uintptr{f.open.Fd()}
}

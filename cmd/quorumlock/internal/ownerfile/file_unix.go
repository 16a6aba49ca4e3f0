//go:build unix

package ownerfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mostText bounds a file, in bytes.
const mostText = 1 << 20

// File is an owner file that this process has locked. The methods of a nil File do nothing.
type File struct {
	path   string
	open   *os.File
	record *Record // nil if no lock is left to release
	ours   bool    // an empty one is removed
}

// Open opens and locks a file; create makes an empty one if it does not exist. The caller closes it. The error is
// [ErrInUse] if a process has it locked, and fs.ErrNotExist if there is no file.
func Open(path string, create bool) (*File, error) {
	flags := os.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK
	if create {
		flags |= os.O_CREATE
	}
	for range 1000 {
		open, err := os.OpenFile(path, flags, 0o600)
		if errors.Is(err, unix.ELOOP) {
			err = fmt.Errorf("%q is a symbolic link", path)
		}
		if err != nil {
			return nil, fmt.Errorf("the owner file: %w", err)
		}
		f := &File{path: path, open: open, ours: create}
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
	return nil, fmt.Errorf("the owner file %q: it is replaced all the time", path)
}

// Look returns what the file of a run says, which may be alive.
func Look(path string) (*Record, error) {
	open, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("the owner file: %w", err)
	}
	defer open.Close()
	f := &File{path: path, open: open}
	if err := f.read(); err != nil {
		return nil, fmt.Errorf("the owner file %q: %w", path, err)
	}
	return f.record, nil
}

func (f *File) lockAndRead() error {
	if info, err := f.open.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, errors.New("it is no regular file"))
	}
	if err := lock(f.open); err != nil {
		return err
	}
	return f.read()
}

func (f *File) read() error {
	text, err := io.ReadAll(io.LimitReader(f.open, mostText))
	if err != nil {
		return err
	}
	if f.record, err = parse(text); f.record != nil {
		f.record.isCopy = f.record.File != identityOf(f.open)
	}
	return err
}

// identityOf tells a file from its copies: it stays the same if the file is renamed.
func identityOf(f *os.File) string {
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return err.Error()
	}
	return fmt.Sprint(stat.Dev, ":", stat.Ino)
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
	temporary, err := os.CreateTemp(filepath.Dir(f.path), filepath.Base(f.path)+".*")
	if err != nil {
		return err
	}
	next, err := f.replace(temporary, &r)
	if err != nil {
		temporary.Close()
		_ = os.Remove(temporary.Name())
		return err
	}
	f.open.Close()
	f.open, f.record = next, &r
	return nil
}

// replace puts a new file in the place of f's. It returns it open for reading: a job that inherits it cannot write to it.
func (f *File) replace(temporary *os.File, r *Record) (*os.File, error) {
	r.File = identityOf(temporary)
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	_, err = temporary.Write(append(text, '\n'))
	if err := errors.Join(err, temporary.Sync(), temporary.Close()); err != nil {
		return nil, err
	}
	next, err := os.Open(temporary.Name())
	if err != nil {
		return nil, err
	}
	if err = lock(next); err == nil {
		err = os.Rename(temporary.Name(), f.path)
	}
	if err != nil {
		next.Close()
		return nil, err
	}
	return next, nil
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

// Close unlocks the file, for those who have inherited it, too. It removes one that says nothing, if Open may have made it.
func (f *File) Close() {
	if f == nil {
		return
	}
	if f.record == nil && f.ours {
		f.Remove()
	}
	_ = unix.Flock(int(f.open.Fd()), unix.LOCK_UN)
	f.open.Close()
}

// Bequeath has the processes that are started before done keep the file locked. They inherit a descriptor with a number
// that no script uses for itself.
func (f *File) Bequeath() (done func(), err error) {
	if f == nil {
		return func() {}, nil
	}
	high, err := unix.FcntlInt(f.open.Fd(), unix.F_DUPFD, 200)
	if err != nil {
		return nil, fmt.Errorf("the owner file %q: %w", f.path, err)
	}
	return func() { unix.Close(high) }, nil
}

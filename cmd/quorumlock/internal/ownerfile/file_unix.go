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

const (
	// mostText bounds a file, in bytes.
	mostText = 1 << 20
	// descriptor is the lowest number of the descriptor that a job inherits: no script uses it for itself.
	descriptor = 87
)

// File is an owner file that this process has locked. The methods of a nil File do nothing.
type File struct {
	path   string
	open   *os.File // for reading: a job that inherits it cannot write to it
	record *Record  // nil if no lock is left to release
	ours   bool     // an empty one is removed
}

// Open opens and locks a file; create makes an empty one if it does not exist. The caller closes it. The error wraps
// [ErrInUse] if a process has it locked, or is of the job that it names, and fs.ErrNotExist if there is no file.
func Open(path string, create bool) (*File, error) {
	flags := 0
	if create {
		flags = os.O_CREATE
	}
	for range 1000 {
		f, err := open(path, flags)
		if err != nil {
			return nil, err
		}
		f.ours = create
		err = f.lockAndRead()
		if err == nil && f.isThere() {
			if !create {
				return f, nil
			}
			return f.reserve()
		}
		f.open.Close()
		if err != nil {
			return nil, fmt.Errorf("the owner file %q: %w", path, err)
		}
		// Another process has replaced or removed it since.
	}
	return nil, fmt.Errorf("the owner file %q: it is replaced all the time", path)
}

// Look returns the record of a run's file. The run may be alive.
func Look(path string) (*Record, error) {
	f, err := open(path, 0)
	if err != nil {
		return nil, err
	}
	defer f.open.Close()
	if err := f.read(); err != nil {
		return nil, fmt.Errorf("the owner file %q: %w", path, err)
	}
	return f.record, nil
}

// open opens a file that nobody but this process's user can have written.
func open(path string, flags int) (*File, error) {
	open, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|flags, 0o600)
	if errors.Is(err, unix.ELOOP) {
		err = fmt.Errorf("%q is a symbolic link", path)
	}
	if err != nil {
		return nil, fmt.Errorf("the owner file: %w", err)
	}
	if err := isPrivate(open); err != nil {
		open.Close()
		return nil, fmt.Errorf("the owner file %q: %w", path, err)
	}
	return &File{path: path, open: open}, nil
}

// isPrivate returns why another user may have written the file, or another program.
func isPrivate(f *os.File) error {
	var stat unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &stat)
	switch mode := stat.Mode; {
	case err != nil:
		return err
	case mode&unix.S_IFMT != unix.S_IFREG:
		return errors.New("it is no regular file")
	case int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("it belongs to user %d, not %d: use it as that user", stat.Uid, os.Geteuid())
	case mode&0o022 != 0:
		return fmt.Errorf("others may write to it, with the mode %#o", mode&0o777)
	case stat.Nlink > 1:
		return errors.New("it has another name, as a hard link")
	}
	return nil
}

func (f *File) lockAndRead() error {
	err := unix.Flock(int(f.open.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("%w: the run that wrote it, or a process of its job, is alive (fuser shows which)", ErrInUse)
	}
	if err == nil {
		err = f.read()
	}
	if err == nil && f.record != nil && f.record.Machine == machine() && f.record.Job.lives() {
		err = fmt.Errorf("%w: its run is dead, but not the run's job: the process group %d is alive", ErrInUse, f.record.Job.Group)
	}
	return err
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

// isThere reports whether the path leads to the file.
func (f *File) isThere() bool {
	there, err := os.Lstat(f.path)
	return err == nil && f.is(there)
}

// Record returns what the file says; nil if it is empty.
func (f *File) Record() *Record {
	if f == nil {
		return nil
	}
	return f.record
}

// is reports whether it is that file.
func (f *File) is(info os.FileInfo) bool {
	mine, err := f.open.Stat()
	return err == nil && os.SameFile(mine, info)
}

// Write writes the record to the file, in place: so the path always leads to the locked file, and there is no other
// file. A text that was not written to the end counts as empty.
func (f *File) Write(r Record) error {
	if f == nil {
		return nil
	}
	r.File = identityOf(f.open)
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(f.path, os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !f.is(info) {
		return fmt.Errorf("%q is another file now", f.path)
	}
	text = append(text, '\n')
	if _, err = file.WriteAt(text, 0); err == nil {
		err = file.Truncate(int64(len(text)))
	}
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		_, f.record = file.Truncate(0), nil
		return err
	}
	f.record = &r
	return nil
}

// JobEnded takes the job out of the file: processes that it has left behind do not count.
func (f *File) JobEnded() {
	if r := f.Record(); r != nil {
		without := *r
		without.Job = Job{}
		_ = f.Write(without)
	}
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

// reserve gives the file the descriptor that a job inherits, or closes it.
func (f *File) reserve() (*File, error) {
	high, err := unix.FcntlInt(f.open.Fd(), unix.F_DUPFD_CLOEXEC, descriptor)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("the owner file %q: a job inherits it as descriptor %d, which the limit of open files (ulimit -n) refuses: %w",
			f.path, descriptor, err)
	}
	f.open.Close()
	f.open = os.NewFile(uintptr(high), f.path)
	return f, nil
}

// Bequeath makes processes that are started from now on inherit the lock of the file.
func (f *File) Bequeath() {
	if f != nil {
		_, _ = unix.FcntlInt(f.open.Fd(), unix.F_SETFD, 0)
	}
}

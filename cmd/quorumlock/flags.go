package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// shortest is the least lease, and the least max hold, that package quorum takes.
const shortest = 10 * time.Millisecond

// lineFlags reads the flags of a command line. Its errors repeat no value, which may hold a
// password.
type lineFlags struct {
	set   *flag.FlagSet
	wrong string // what a known flag with a wrong value needs
}

func newFlags() *lineFlags {
	f := &lineFlags{set: flag.NewFlagSet("", flag.ContinueOnError)}
	f.set.SetOutput(io.Discard)
	return f
}

// value adds a flag with a value, which set reads.
func (f *lineFlags) value(name, needs string, set func(text string) error) {
	f.set.Func(name, "", func(text string) error {
		err := set(text)
		if err != nil {
			f.wrong = "-" + name + " needs " + needs
		}
		return err
	})
}

func (f *lineFlags) duration(name string, least time.Duration, d *time.Duration) {
	f.value(name, fmt.Sprintf("a duration such as 30s, at least %v", least), func(text string) (err error) {
		if *d, err = time.ParseDuration(text); err == nil && *d < least {
			err = errors.New("too short")
		}
		return err
	})
}

func (f *lineFlags) boolean(name string, b *bool) {
	f.set.BoolFunc(name, "", func(text string) (err error) {
		if *b, err = strconv.ParseBool(text); err != nil {
			f.wrong = "-" + name + " is given alone"
		}
		return err
	})
}

// urlsFile adds the flag for the file that has the masters' URLs.
func (f *lineFlags) urlsFile(path *string) {
	f.value("urls-file", "the path of a file, not a URL", func(text string) error {
		*path = text
		if text == "" || strings.Contains(text, "://") {
			return errors.New("no path")
		}
		return nil
	})
}

// parse reads the flags, and returns the other arguments. The error is flag.ErrHelp, or says what is
// wrong.
func (f *lineFlags) parse(args []string) ([]string, error) {
	err := f.set.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil, err
	case err != nil && strings.HasPrefix(err.Error(), "flag needs an argument: "):
		return nil, err // it names a known flag only
	case err != nil && f.wrong != "":
		return nil, errors.New(f.wrong)
	case err != nil:
		name, isFlag := strings.CutPrefix(err.Error(), "flag provided but not defined: ")
		if !isFlag {
			name = "" // bad syntax: the error has the value
		}
		return nil, errors.New("unknown flag" + named(name))
	}
	return f.set.Args(), nil
}

// named returns an argument as an error may repeat it, after a colon. It returns nothing for what may
// be a URL, or the rest of one, with a password.
func named(arg string) string {
	if arg == "" || strings.Contains(arg, "://") || strings.Contains(arg, "@") {
		return ""
	}
	return fmt.Sprintf(": %.64q", arg)
}

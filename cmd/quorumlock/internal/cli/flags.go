package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/quorumlock/quorumlock/internal/plain"
	urfave "github.com/urfave/cli/v3"
)

// Flags are the flags of a command. Their errors repeat no value, which may hold a password.
type Flags struct {
	all   []urfave.Flag
	wrong string   // what a known flag with a wrong value needs
	given []string // the flags that were given, quoted for a shell
}

// Value adds a flag with a value, which set reads.
func (f *Flags) Value(name, usage, needs string, set func(text string) error) {
	f.add(name, usage, "-"+name+" needs "+needs, &flagValue{set: set})
}

// Text adds a flag for a text that is valid.
func (f *Flags) Text(name, usage, needs string, isValid func(string) bool, into *string) {
	f.Value(name, usage, needs, func(text string) error {
		if *into = text; !isValid(text) {
			return errors.New("not valid")
		}
		return nil
	})
}

// Path adds a flag for the path of a file.
func (f *Flags) Path(name, usage string, path *string) {
	isPath := func(text string) bool { return text != "" && !strings.Contains(text, "://") }
	f.Text(name, usage, "the path of a file, not a URL", isPath, path)
}

// Number adds a flag for a number from least to most.
func (f *Flags) Number(name, usage, what string, least, most int, n *int) {
	f.Value(name, usage, fmt.Sprintf("%s from %d to %d", what, least, most), func(text string) (err error) {
		if *n, err = strconv.Atoi(text); err == nil && (*n < least || *n > most) {
			err = strconv.ErrRange
		}
		return err
	})
}

// Duration adds a flag for a duration of at least least.
func (f *Flags) Duration(name, usage string, least time.Duration, d *time.Duration) {
	f.Value(name, usage, fmt.Sprintf("a duration such as 30s, at least %v", least), func(text string) (err error) {
		if *d, err = time.ParseDuration(text); err == nil && *d < least {
			err = errors.New("too short")
		}
		return err
	})
}

// Boolean adds a flag without a value.
func (f *Flags) Boolean(name, usage string, b *bool) {
	f.add(name, usage, "-"+name+" is given alone", &flagValue{isBool: true, set: func(text string) (err error) {
		*b, err = strconv.ParseBool(text)
		return err
	}})
}

// add adds a flag; wrong says what is wrong with a value that set refuses.
func (f *Flags) add(name, usage, wrong string, v *flagValue) {
	set := v.set
	v.set = func(text string) error {
		given := "-" + name
		if !v.isBool {
			given += " " + shellWord(text)
		}
		f.given = append(f.given, given)
		err := set(text)
		if err != nil {
			f.wrong = wrong
		}
		return err
	}
	flag := &urfave.GenericFlag{Name: name, Usage: usage, Value: v, HideDefault: true}
	if v.isBool {
		f.all = append(f.all, switchFlag{flag})
	} else {
		f.all = append(f.all, flag)
	}
}

// switchFlag is a flag without a value in the help.
type switchFlag struct{ *urfave.GenericFlag }

func (s switchFlag) TakesValue() bool { return false }
func (s switchFlag) String() string   { return urfave.FlagStringer(s) }

// UnlockLine is the command line that deletes an owner's locks. It repeats the flags that choose masters and slots.
func (f *Flags) UnlockLine(owner string, names ...string) string {
	line := "quorumlock unlock -yes"
	for _, flag := range f.given {
		switch name, _, _ := strings.Cut(flag, " "); name {
		case "-all", "-slot", "-urls-file", "-cacert", "-cert", "-key", "-max-lease", "-timeout":
			line += " " + flag
		}
	}
	line += " -owner " + shellWord(owner)
	for _, name := range names {
		line += " " + shellWord(name)
	}
	return line
}

// shellWord quotes a word for a POSIX shell, if it needs that. Control characters cannot be pasted.
func shellWord(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./:,@%+=", r)
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(plain.Text(word), "'", `'\''`) + "'"
}

// explain words the library's error about flags without their values.
func (f *Flags) explain(err error) error {
	name, isFlag := strings.CutPrefix(err.Error(), "flag provided but not defined: ")
	switch {
	case strings.HasPrefix(err.Error(), "flag needs an argument: "):
		return err // it names a known flag only
	case f.wrong != "":
		return errors.New(f.wrong)
	case !isFlag || !looksLikeFlag(name):
		name = ""
	}
	said := Repeat(name)
	if said != "" {
		var known []string
		for _, flag := range f.all {
			known = append(known, "-"+flag.Names()[0])
		}
		said += didYouMean("-"+strings.TrimLeft(name, "-"), known)
	}
	return errors.New("unknown flag" + said)
}

// looksLikeFlag reports whether an argument is a dash and then a letter.
func looksLikeFlag(arg string) bool {
	return len(arg) > 1 && arg[0] == '-' && unicode.IsLetter(rune(arg[1]))
}

// flagValue is a flag's value as the library takes it ([urfave.Value]).
type flagValue struct {
	set    func(text string) error
	isBool bool
}

func (v *flagValue) Set(text string) error { return v.set(text) }
func (v *flagValue) Get() any              { return nil }
func (v *flagValue) String() string        { return "" }
func (v *flagValue) IsBoolFlag() bool      { return v.isBool }

// Repeat returns an argument for an error, after a colon. It returns nothing if the argument may be a URL, or a part
// of one, with a password.
func Repeat(arg string) string {
	if arg == "" || strings.Contains(arg, "://") || strings.Contains(arg, "@") {
		return ""
	}
	return fmt.Sprintf(": %.64q", arg)
}

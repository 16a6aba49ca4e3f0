//go:build unix

package main

import (
	"regexp"
	"strings"

	"github.com/quorumlock/quorumlock/internal/redistest"
)

var (
	luaIf        = regexp.MustCompile(`\b(?:else)?if (.+?) then\b`)
	luaLogic     = regexp.MustCompile(` (and|or) `)
	luaStatement = regexp.MustCompile(`^ *(?:(?:redis\.)?p?call\(.*\)|[a-zA-Z_][][\w., #+]* = .*)$`)
	luaString    = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	luaComment   = regexp.MustCompile(`(^| +)--.*$`)
)

// mutantsOfLua returns the mutants of a Lua file, line by line, without what the server cannot compile.
func mutantsOfLua(server *redistest.Master, file, text string) (mutants []mutant) {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		code := luaComment.ReplaceAllString(line, "")
		// Without what strings have in them, all else stays where it is.
		bare := luaString.ReplaceAllStringFunc(code, func(s string) string { return strings.Repeat("s", len(s)) })
		edit := func(from, to int, now, what string) {
			edited := append([]string{}, lines...)
			edited[i] = code[:from] + now + code[to:]
			whole := strings.Join(edited, "\n")
			if _, err := server.Do("SCRIPT", "LOAD", whole); err == nil {
				mutants = append(mutants, mutant{file: file, line: i + 1, edit: shown(what), lua: whole})
			}
		}
		for _, at := range luaIf.FindAllStringSubmatchIndex(bare, -1) {
			from, to := at[2], at[3]
			edit(from, to, "false", "never: if "+code[from:to])
			edit(from, to, "true", "always: if "+code[from:to])
		}
		for _, at := range luaLogic.FindAllStringSubmatchIndex(bare, -1) {
			operator := bare[at[2]:at[3]]
			from, to := before(bare[:at[0]], operator), at[1]+after(bare[at[1]:], operator)
			whole := strings.TrimSpace(code[from:to])
			edit(from, at[1], "", "without "+code[from:at[0]]+" in "+whole)
			edit(at[0], to, "", "without "+code[at[1]:to]+" in "+whole)
		}
		if luaStatement.MatchString(bare) && !strings.HasPrefix(strings.TrimSpace(bare), "local ") {
			edit(0, len(code), "", "without "+code)
		}
	}
	return mutants
}

var (
	opens      = regexp.MustCompile(`^(?:.* )?(?:if|elseif|return|not \(|=|and|or) $`)
	closesThen = regexp.MustCompile(`^ (?:then|do|end|else|or|and)\b`)
)

// after returns the length of the operand that code begins with. An operand of and ends at the next operator, one of or
// at the next or.
func after(code, operator string) int {
	depth := 0
	for i, c := range code {
		switch {
		case strings.ContainsRune("([{", c):
			depth++
		case strings.ContainsRune(")]}", c) && depth > 0:
			depth--
		case depth > 0:
		case strings.ContainsRune(")]},", c):
			return i
		case closesThen.MatchString(code[i:]) && !(operator == "or" && strings.HasPrefix(code[i:], " and ")):
			return i
		}
	}
	return len(code)
}

// before returns where the operand begins that code ends with.
func before(code, operator string) int {
	depth := 0
	for i := len(code) - 1; i >= 0; i-- {
		switch c := rune(code[i]); {
		case strings.ContainsRune(")]}", c):
			depth++
		case strings.ContainsRune("([{", c) && depth > 0:
			depth--
		case depth > 0:
		case strings.ContainsRune("([{,", c):
			return i + 1
		case opens.MatchString(code[:i+1]) && !(operator == "or" && strings.HasSuffix(code[:i+1], " and ")):
			return i + 1
		}
	}
	return len(code) - len(strings.TrimLeft(code, " "))
}

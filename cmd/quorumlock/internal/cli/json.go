package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// PrintJSON prints JSON that is safe for a terminal, with any texts in it.
func PrintJSON(out io.Writer, v any) error {
	var document bytes.Buffer
	encoder := json.NewEncoder(&document)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	_, err := out.Write(printable(document.Bytes()))
	return err
}

// printable returns a document in JSON with an escape in place of each character that is not printable.
// It means the same. encoding/json escapes few of them.
func printable(document []byte) []byte {
	var out []byte
	for _, r := range string(document) {
		switch {
		case r == '\n' || strconv.IsPrint(r): // a line break stands between values only
			out = utf8.AppendRune(out, r)
		default:
			for _, unit := range utf16.AppendRune(nil, r) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		}
	}
	return out
}

package cli

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/quorumlock/quorumlock/internal/plain"
)

// PrintJSON prints what a terminal may get, whatever is in the texts.
func PrintJSON(out io.Writer, v any) error {
	var document bytes.Buffer
	encoder := json.NewEncoder(&document)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	_, err := out.Write(plain.JSON(document.Bytes()))
	return err
}

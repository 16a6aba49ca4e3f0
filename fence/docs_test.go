package fence

import (
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// docs/fencing.md quotes the statements.
func TestDocumentQuotesTheStatements(t *testing.T) {
	text := testkit.Read(t, "../docs/fencing.md")
	for name, statement := range map[string]string{
		"Schema": Schema, "SchemaMySQL": SchemaMySQL, "stampRow": stampRow, "raiseMySQL": raiseMySQL, "readMySQL": readMySQL,
	} {
		testkit.Check(t, strings.Contains(text, "```sql\n"+statement+"\n```"),
			"docs/fencing.md does not quote %s:\n%s", name, statement)
	}
}

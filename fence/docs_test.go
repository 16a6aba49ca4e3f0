package fence

import (
	"os"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// docs/fencing.md quotes the statements.
func TestDocumentQuotesTheStatements(t *testing.T) {
	text, err := os.ReadFile("../docs/fencing.md")
	testkit.Must(t, err)
	for name, statement := range map[string]string{
		"Schema": Schema, "SchemaMySQL": SchemaMySQL, "stampRow": stampRow, "raiseMySQL": raiseMySQL, "readMySQL": readMySQL,
	} {
		if !strings.Contains(string(text), "```sql\n"+statement+"\n```") {
			t.Errorf("docs/fencing.md does not quote %s:\n%s", name, statement)
		}
	}
}

package scripts

// digests are the SHA-1 of the scripts. They are written down, because a program that imports this package may run
// where Go forbids SHA-1 (GODEBUG=fips140=only). TestDigests tells the right ones after a change.
var digests = map[string]any{
	"acquire":   "e859e9a507afb02b641923e9ad1fee655f5b5c52",
	"read":      "caff7f7f761ef6d12650c3b5b5b87944f80a6488",
	"renew":     "bf6490a746591e35255f4c2a56a66db4216034d8",
	"release":   "91b1beb8ee814317ff656ba5db17fde2853f1258",
	"raise":     "a3ef082689088fb413b9af4e884033a4830fc53c",
	"inspect":   "b9b90cca88ec6448fd7fd9845c0e53fb107d7019",
	"force":     "8278c67c7e51e68a159e5f80fa241f9069d45dca",
	"look":      "35810dfc0682ca9088444eb9ce5bbecc6f6147ea",
	"mark":      "4cdc3d6e44d2282111dafe41bb710a00fca65474",
	"acquires":  "d8d3e84561484ebb477ed45f373154cd77c3fc76",
	"releases":  "73a604cf6d8acc5edc5e2dc36625e84fd94b1612",
	"introduce": "c78f9c274763f11f151bb216b735416dddd17917",
	"who":       "3959fa865255f03dc778848d2ffedc30c0ff5a12",
	"slots":     "20463fe502899db97eef7fe75568303745bff4d8",
	"ask":       "d9998ac9f91a22dca07a4efa7f26bd9b5ff7ef6f",
	"survey":    "7485176c0e63f329e0e351c2fbc3bad706481fa1",
	"lockers":   "64248587a1654e08ad407535b459f07c15e77e2a",
	"counters":  "29a674043dcab97286628dca13ae30257f4e179f",
	"lift":      "29e60bf9dab9137994fbe28100ac8c56d7e40182",
}

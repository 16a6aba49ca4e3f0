// Package tickets has the text with which a lock goes from the process that hands it over to the one that takes it over.
package tickets

import (
	"encoding/base64"
	"encoding/json"
	"errors"

	"github.com/quorumlock/quorumlock/scripts"
)

// Ticket is a lock that was handed over.
type Ticket struct {
	Owner scripts.Owner
	Token uint64
	Names []string
	Slots []int // of the semaphore Names[0]; nil for a lock that is no slot
}

// version is the form of tickets: 1 is the base64url of a JSON object.
const version = 1

// wire is a ticket on its way. Names are bytes, which need not be UTF-8.
type wire struct {
	Version int      `json:"v"`
	Owner   string   `json:"owner"`
	Token   uint64   `json:"token"`
	Names   [][]byte `json:"names"`
	Slots   []int    `json:"slots,omitempty"`
}

// String returns the text that [Parse] reads.
func (t Ticket) String() string {
	text := wire{Version: version, Owner: t.Owner.String(), Token: t.Token, Slots: t.Slots}
	for _, name := range t.Names {
		text.Names = append(text.Names, []byte(name))
	}
	all, _ := json.Marshal(text) // without an error: numbers, bytes and the library's own texts
	return base64.RawURLEncoding.EncodeToString(all)
}

// maxOwner bounds an owner's id, as acquire.lua does.
const maxOwner = 1024

// Parse reads a ticket. It does not check the names. The error is why the text is no ticket.
func Parse(text string) (Ticket, error) {
	var read wire
	all, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(all, &read)
	}
	switch {
	case err != nil:
		return Ticket{}, errors.New("it is cut off, or something else")
	case read.Version != version:
		return Ticket{}, errors.New("it is of another version of this library")
	case read.Owner == "" || len(read.Owner) > maxOwner || read.Token == 0:
		return Ticket{}, errors.New("it names no owner or no token")
	case read.Slots != nil && (len(read.Names) != 1 || !areSlots(read.Slots)):
		return Ticket{}, errors.New("its slots are not of one semaphore")
	}
	t := Ticket{Owner: scripts.OwnerOf(read.Owner), Token: read.Token, Slots: read.Slots}
	for _, name := range read.Names {
		t.Names = append(t.Names, string(name))
	}
	return t, nil
}

// areSlots reports whether a lock may have these slots.
func areSlots(numbers []int) bool {
	for i, slot := range numbers {
		if slot < 0 || slot >= scripts.MaxSlots || i > 0 && slot <= numbers[i-1] {
			return false
		}
	}
	return len(numbers) > 0 && len(numbers) <= scripts.MaxNames
}

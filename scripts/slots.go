package scripts

import (
	"strconv"
	"strings"
)

// Slot k of a semaphore NAME is a lock with the reserved name quorumlock:slot:K:NAME. Its key does not depend on the
// number of slots, so clients with different numbers share the slots. All slots of a semaphore share the channel of
// the name quorumlock:slots:NAME, which is no key.
const (
	slotPrefix  = Prefix + "slot:"
	slotsPrefix = Prefix + "slots:"
)

const (
	MaxSlots = 1024 // of a semaphore
	MaxNames = 64   // of a lock, or slots
)

// SlotName returns the name of the lock that is a slot of a semaphore.
func SlotName(semaphore string, slot int) string {
	return slotPrefix + strconv.Itoa(slot) + ":" + semaphore
}

// SlotNames returns the names of several slots of a semaphore.
func SlotNames(semaphore string, slots []int) []string {
	names := make([]string, len(slots))
	for i, slot := range slots {
		names[i] = SlotName(semaphore, slot)
	}
	return names
}

// SlotsName returns the name whose channel all slots of a semaphore use.
func SlotsName(semaphore string) string { return slotsPrefix + semaphore }

// ParseSlot returns the semaphore and the slot of a lock's name. ok is false for a lock that is no slot.
func ParseSlot(name string) (semaphore string, slot int, ok bool) {
	rest, ok := strings.CutPrefix(name, slotPrefix)
	if !ok {
		return "", 0, false
	}
	number, semaphore, _ := strings.Cut(rest, ":")
	slot, _ = strconv.Atoi(number)
	if slot < 0 || SlotName(semaphore, slot) != name {
		return "", 0, false
	}
	return semaphore, slot, true
}

// channelName returns the name whose channel the lock uses: its own, unless the lock is a slot.
func channelName(name string) string {
	if semaphore, _, ok := ParseSlot(name); ok {
		return SlotsName(semaphore)
	}
	return name
}

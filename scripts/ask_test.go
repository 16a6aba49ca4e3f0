package scripts_test

import (
	"testing"

	"github.com/quorumlock/quorumlock/scripts"
)

func askVectors() []vector {
	sent := func(v vector, call scripts.Call, text string, channels ...string) vector {
		v.call, v.want, v.untouched, v.before = call, true, true, state(holds("k", me, "1"))
		for _, channel := range channels {
			v.published = append(v.published, message{"redisson_lock__channel:" + channel, text})
		}
		return v
	}
	return []vector{
		sent(vector{name: "an owner"}, scripts.Ask([]string{"k"}, me), me, "{quorumlock:request:k}"),
		sent(vector{name: "an owner of several names"}, scripts.Ask([]string{"k", "a{b}"}, me), me,
			"{quorumlock:request:k}", "quorumlock:request:a{b}"),
		sent(vector{name: "everybody"}, scripts.AskAll([]string{"k"}, scripts.OwnerOf(me)), "*"+me, "{quorumlock:request:k}"),
		sent(vector{name: "of a slot"}, scripts.AskAll([]string{scripts.SlotName("k", 3)}, scripts.OwnerOf(me)), "*"+me,
			"{quorumlock:request:quorumlock:slots:k}"),
	}
}

// A waiter asks the slots' holders by the name that stands for all slots.
func TestSlotsHaveOneChannelForRequests(t *testing.T) {
	if slot, all := scripts.AskChannel(scripts.SlotName("k", 3)), scripts.AskChannel(scripts.SlotsName("k")); slot != all {
		t.Errorf("%q of a slot, %q of all", slot, all)
	}
	if scripts.AskChannel("k") == scripts.AskChannel(scripts.SlotsName("k")) {
		t.Error("the lock and the semaphore of a name have one channel")
	}
}

func TestWhoIsAsked(t *testing.T) {
	owner := scripts.NewOwner("locker", 7)
	for message, want := range map[string]bool{
		"locker:7": true, "locker:8": false, "other:7": false, "": false, "0": false,
		"*locker:7": true, "*locker:8": true, "*locker:18446744073709551615": true,
		"*locker:6": false, // it asked before it made this owner
		"*locker:0": false,
		"*other:6":  true, "*": true, "*locker": true, "*locker:": false, "*locker:x": false,
	} {
		if got := owner.IsAsked(message); got != want {
			t.Errorf("%q asks locker:7: %v, want %v", message, got, want)
		}
	}
	if !scripts.OwnerOf("odd").IsAsked("*locker:1") || !scripts.OwnerOf("odd").IsAsked("odd") {
		t.Error("an owner of another form is not asked")
	}
}

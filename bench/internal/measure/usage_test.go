package measure

import (
	"testing"
	"time"
)

func TestUsageOfTwoMasters(t *testing.T) {
	const first = "used_memory:100\r\ntotal_net_input_bytes:10\r\ntotal_net_output_bytes:20\r\n" +
		"used_cpu_sys:0.5\r\nused_cpu_user:0.25\r\ncmdstat_get:calls=3,usec=12,usec_per_call=4.00\r\n"
	const second = "used_memory:50\r\ntotal_net_input_bytes:1000\r\ntotal_net_output_bytes:1\r\n" +
		"used_cpu_sys:1.5\r\ncmdstat_get:calls=5,usec=22\r\ncmdstat_evalsha:calls=2,usec=9\r\n"
	u := Usage{Commands: Commands{}}
	for _, text := range []string{first, second} {
		if err := u.add(text); err != nil {
			t.Fatal(err)
		}
	}
	if u.Masters != 2250*time.Millisecond || u.Bytes != 1031 || u.Memory != 150 ||
		u.Commands["get"] != (Command{8, 34 * time.Microsecond}) || u.Commands.Calls(ScriptCalls...) != 2 {
		t.Errorf("%+v", u)
	}
	before := Usage{Commands: Commands{"get": {3, 4 * time.Microsecond}, "evalsha": {2, 0}}, Bytes: 31, own: 900}
	if more := u.Since(before); more.Bytes != 100 || more.Commands["get"] != (Command{5, 30 * time.Microsecond}) ||
		len(more.Commands) != 1 {
		t.Errorf("%+v", more)
	}
	if err := u.add("cmdstat_get:calls=many,usec=1"); err == nil {
		t.Error("no error of a count that is none")
	}
}

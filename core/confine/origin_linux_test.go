package confine

import (
	"strconv"
	"strings"
	"testing"
)

// TestOrigin: what is left is read again, and nothing else is taken for an origin.
func TestOrigin(t *testing.T) {
	limits := func(locks, resident string) string {
		return "Limit                     Soft Limit           Hard Limit           Units     \n" +
			"Max resident set          unlimited            " + resident +
			"            bytes     \nMax file locks            0                    " + locks +
			"                    locks     \n"
	}
	o := Origin{Pid: 1<<22 - 1, Born: 1<<25 - 1}
	text := strconv.FormatUint(o.Limit(), 10)
	if got, found := originIn(limits("0", text)); !found || got != o {
		t.Errorf("%+v, %v", got, found)
	}
	for name, text := range map[string]string{
		"unlimited": limits("0", "unlimited"), "none": limits("0", "0"), "another limit": limits("0", "1099511627776"),
		"not marked": limits("unlimited", text), "negative": limits("0", "-1"), "nothing": "",
		"no limit of resident pages": "Max file locks            0                    0                    locks     \n",
	} {
		if got, found := originIn(text); found {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if !o.Is(o.Born) || !o.Is(o.Born+1<<25) || o.Is(o.Born-1) {
		t.Error("the times of a start")
	}
	for _, pid := range []int{0, -1, 1 << 22} {
		if err := (Origin{Pid: pid}).Leave(); err == nil ||
			!strings.Contains(err.Error(), "cannot") && !strings.Contains(err.Error(), "no number") {
			t.Errorf("process %d: %v", pid, err)
		}
	}
}

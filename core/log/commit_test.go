package log_test

import (
	"testing"

	"github.com/yett-dev/yett/core/log"
)

func TestEachRecordRefusesCutGroups(t *testing.T) {
	whole := []byte{0, 0, 0, 2, '{', '}', 0, 0, 0, 1, 'x'}
	for n := range whole {
		err := log.EachRecord(whole[:n], func([]byte) error { return nil })
		if (n == 0 || n == 6) != (err == nil) {
			t.Errorf("%d bytes of a group: %v", n, err)
		}
	}
	if err := log.EachRecord([]byte{0xff, 0xff, 0xff, 0xff, 1}, func([]byte) error { return nil }); err == nil {
		t.Error("a length beyond the group was believed")
	}
}

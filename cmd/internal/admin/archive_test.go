package admin

import (
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/log"
)

// Records that no file has and the log has no more are told, whatever order the files are in.
func TestArchiveWithAGap(t *testing.T) {
	done := archived{}
	err := done.whole("arch", []log.Range{{From: 21, To: 30}, {From: 1, To: 10}})
	if err == nil || !strings.Contains(err.Error(), "records 11 to 20 are in no file of arch") {
		t.Error(err)
	}
	if err := done.whole("arch", []log.Range{{From: 11, To: 30}, {From: 5, To: 20}}); err != nil || done.From != 5 ||
		done.To != 30 {
		t.Errorf("%+v %v", done, err)
	}
}

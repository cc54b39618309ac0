package obs_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/obs"
	"github.com/yett-dev/yett/sdk"
)

func TestMetricsAreShown(t *testing.T) {
	m := obs.New("v1")
	m.Operated("authorize", "PERMIT", "", time.Millisecond)
	m.Operated("authorize", "DENY", "", time.Millisecond)
	m.Operated("authorize", "DENY", "", time.Millisecond)
	m.Operated("scan_output", "REDACTED", "", time.Millisecond)
	m.Operated("approve_defer", "", sdk.CodeSelfApproval, time.Millisecond)
	m.Gauge("yett_part_up", "1 while the part works.", map[string]string{"part": "store"}, func() float64 { return 1 })
	s, err := m.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve() }()
	resp, err := http.Get(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`yett_decisions_total{effect="PERMIT"} 1`, `yett_decisions_total{effect="DENY"} 2`, `yett_decisions_total{effect="DEFER"} 0`,
		`yett_scans_total{outcome="REDACTED"} 1`, `yett_refused_total{code="self_approval",operation="approve_defer"} 1`,
		`yett_operation_seconds_count{operation="authorize"} 3`, `yett_part_up{part="store"} 1`, `yett_build_info{version="v1"} 1`,
	} {
		if !strings.Contains(string(text), want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

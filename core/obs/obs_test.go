package obs_test

import (
	"context"
	"io"
	"net"
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
	m.Asked("authorize", "rules", "", false, 20*time.Microsecond)
	m.Asked("authorize", "entitle", "iam", true, time.Second)
	asked := 0
	m.Table([]string{"name"}, []obs.Column{{Name: "yett_row_up", Help: "1."},
		{Name: "yett_row_total", Help: "2.", Counter: true}}, func(emit func([]string, ...float64)) {
		asked++
		emit([]string{"a"}, 1, 7)
		emit([]string{"b"}, 0, 9)
	})
	m.Gauge("yett_part_up", "1 while the part works.", map[string]string{"part": "store"}, func() float64 { return 1 })
	s, err := m.Listen("127.0.0.1:0", obs.Access{}, t.Logf)
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
		`yett_decisions_total{effect="PERMIT"} 1`, `yett_decisions_total{effect="DENY"} 2`,
		`yett_decisions_total{effect="DEFER"} 0`, `yett_scans_total{outcome="REDACTED"} 1`,
		`yett_refused_total{code="self_approval",operation="approve_defer"} 1`,
		`yett_operation_seconds_count{operation="authorize"} 3`, `yett_part_up{part="store"} 1`,
		`yett_build_info{version="v1"} 1`, `yett_step_seconds_count{chain="authorize",result="ok",step="rules"} 1`,
		`yett_step_seconds_bucket{chain="authorize",result="ok",step="rules",le="4e-05"} 1`,
		`yett_step_seconds_count{chain="authorize",result="failed",step="entitle"} 1`,
		`# TYPE yett_row_up gauge`, `# TYPE yett_row_total counter`, `yett_row_up{name="a"} 1`, `yett_row_total{name="a"} 7`,
		`yett_row_up{name="b"} 0`, `yett_row_total{name="b"} 9`,
	} {
		if !strings.Contains(string(text), want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if asked != 1 {
		t.Errorf("a table was read %d times for one scrape", asked)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// The page needs no key, so neither silent connections nor odd paths may keep it from who reads it.
func TestMetricsBesideSilentConnections(t *testing.T) {
	s, err := obs.New("v1").Listen("127.0.0.1:0", obs.Access{}, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve() }()
	host := strings.TrimSuffix(strings.TrimPrefix(s.URL(), "http://"), "/metrics")
	silent := make([]net.Conn, 200)
	for i := range silent {
		if silent[i], err = net.Dial("tcp", host); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]int{"/metrics": 200, "//metrics": 404, "/%6detrics": 404, "/x/../metrics": 404,
		"/metrics/": 404} {
		resp, err := http.Get("http://" + host + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
		}
	}
	for _, c := range silent {
		c.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

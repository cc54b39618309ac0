package mcpd_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkCall sends calls of one tool to a server: directly and through the gateway, one at a time and by 64 clients
// at once. It gives the median and the calls in a second. The store's disk is the test's directory.
func BenchmarkCall(b *testing.B) {
	g := newRig(b, plain(`{"content":[{"type":"text","text":"thirty-one degrees and sunny"}]}`))
	direct := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		plain(`{"content":[{"type":"text","text":"thirty-one degrees and sunny"}]}`)(w, received{body: string(body)})
	}))
	b.Cleanup(direct.Close)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
	var id atomic.Int64
	one := func(url string) time.Duration {
		r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(call(int(id.Add(1)), "read", `{"city":"Oban"}`)))
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+g.key)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		began := time.Now()
		resp, err := client.Do(r)
		if err != nil {
			b.Error(err)
			return 0
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(body), "sunny") {
			b.Errorf("%s, %v", body, err)
		}
		return time.Since(began)
	}
	for _, to := range []struct{ name, url string }{{"direct", direct.URL}, {"gateway", g.url}} {
		for _, clients := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/%d", to.name, clients), func(b *testing.B) {
				var mu sync.Mutex
				var took []time.Duration
				var next atomic.Int64
				var wg sync.WaitGroup
				for range clients {
					wg.Go(func() {
						var own []time.Duration
						for next.Add(1) <= int64(b.N) {
							own = append(own, one(to.url))
						}
						mu.Lock()
						took = append(took, own...)
						mu.Unlock()
					})
				}
				wg.Wait()
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-p50")
				b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "calls/s")
			})
		}
	}
}

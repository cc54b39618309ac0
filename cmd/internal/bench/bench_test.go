//go:build linux

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/cli"
)

func TestHistogram(t *testing.T) {
	var h histogram
	if got := h.at(0.99); got != 0 {
		t.Errorf("empty: %v", got)
	}
	r := rand.New(rand.NewPCG(7, 7))
	var all []time.Duration
	for range 20_000 {
		d := time.Duration(r.ExpFloat64() * float64(3*time.Millisecond))
		all = append(all, d)
		h.add(d)
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[min(int(q*float64(len(all))), len(all)-1)]
		if got := h.at(q); got < want || float64(got) > float64(want)*1.004+1 {
			t.Errorf("at %g: %v, want %v and at most 0.4 %% more", q, got, want)
		}
	}
	h.add(1<<63 - 1)
	h.add(-1)
	if h.at(1) != 1<<63-1 || h.max != 1<<63-1 {
		t.Errorf("the largest duration reads %v", h.at(1))
	}
}

func TestCheckAnswer(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"
	for _, c := range []struct {
		name, in  string
		whole, ok bool
		err       string
	}{
		{"nothing", "", false, false, ""},
		{"half a head", "HTTP/1.1 200 OK\r\nContent-Len", false, false, ""},
		{"half a body", head + "go", false, false, ""},
		{"good", head + "good", true, true, ""},
		{"wrong text", head + "evil", true, false, ""},
		{"wrong status", strings.Replace(head, "200 OK", "503 No", 1) + "good", true, false, ""},
		{"expected only in the head", strings.Replace(head, "OK", "good", 1) + "evil", true, false, ""},
		{"two answers", head + "good" + head, false, false, "more bytes than one answer"},
		{"no length", "HTTP/1.1 200 OK\r\n\r\n", false, false, "without Content-Length"},
		{"too long", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", false, false, "more than"},
		{"endless head", strings.Repeat("x", 70<<10), false, false, "64 KiB of headers"},
	} {
		whole, ok, err := checkAnswer([]byte(c.in), "good")
		if whole != c.whole || ok != c.ok || (err == nil) != (c.err == "") ||
			err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v %v %v", c.name, whole, ok, err)
		}
	}
}

func TestVerdict(t *testing.T) {
	ratio := ratioGoal{goal: 0.5, floor: 0.25}
	short := ratioGoal{goal: 0.5, short: "not all of it is there"}
	bytes := ratioGoal{goal: 100, floor: 200, lower: true}
	for _, c := range []struct {
		goal     ratioGoal
		measured float64
		wrong    []string
		want     string
	}{
		{ratio, 0.5, nil, "met"}, {ratio, 0.49, nil, "limited"}, {ratio, 0.24, nil, "missed"}, {ratio, 0.9, []string{"1 bad answer"}, "missed"},
		{short, 0.9, nil, "limited"}, {short, 0.1, nil, "missed"},
		{bytes, 100, nil, "met"}, {bytes, 150, nil, "limited"}, {bytes, 201, nil, "missed"},
	} {
		if got, why := c.goal.verdict(c.measured, c.wrong); got != c.want || why == "" {
			t.Errorf("%g of goal %g, %v: %s (%q), want %s", c.measured, c.goal.goal, c.wrong, got, why, c.want)
		}
	}
}

func TestBenchBodies(t *testing.T) {
	calls, err := authorizeBodies()
	if err != nil {
		t.Fatal(err)
	}
	again, err := authorizeBodies()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytes.Join(calls, nil), bytes.Join(again, nil)) {
		t.Error("two runs would send different calls")
	}
	var sizes []int
	for _, b := range calls {
		sizes = append(sizes, len(b))
	}
	slices.Sort(sizes)
	if m := sizes[len(sizes)/2]; m < 550 || m > 650 {
		t.Errorf("the median call is %d bytes long, want about 600", m)
	}
	for _, dirty := range []bool{false, true} {
		bodies, err := scanBodies(dirty)
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range bodies {
			var in struct{ Output string }
			if err := json.Unmarshal(b, &in); err != nil {
				t.Fatal(err)
			}
			if has := strings.Contains(in.Output, "gh"+"p_"); has != dirty || len(in.Output) < scanBytes {
				t.Fatalf("output %d: %d bytes, holds a token: %v", i, len(in.Output), has)
			}
		}
	}
}

// answering is a server that answers with what say gives for the n-th request.
func answering(t *testing.T, say func(n int64) (status int, body string)) *drive {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return // a run without a rate ends in the middle of what it sends
		}
		status, body := say(n.Add(1))
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return &drive{addr: strings.TrimPrefix(s.URL, "http://"), path: "/", bodies: [][]byte{[]byte("one"), bytes.Repeat([]byte("two"), 100_000)}, expect: "good", conns: 4, duration: 200 * time.Millisecond}
}

func TestDrive(t *testing.T) {
	good := func(int64) (int, string) { return 200, "good" }
	t.Run("closed", func(t *testing.T) {
		out, err := answering(t, good).run(context.Background())
		if err != nil || out.good == 0 || out.bad != 0 || out.latency.total != uint64(out.good) {
			t.Fatalf("%v %+v", err, out.good)
		}
	})
	t.Run("rate", func(t *testing.T) {
		d := answering(t, good)
		d.rate, d.bodies = 100, d.bodies[:1]
		out, err := d.run(context.Background())
		if err != nil || out.good != 20 || out.late != 0 || out.bad != 0 {
			t.Fatalf("%v: %d good of the 20 that were due, %d late", err, out.good, out.late)
		}
	})
	t.Run("bad answers are seen", func(t *testing.T) {
		for name, bad := range map[string]func(n int64) (int, string){
			"status": func(n int64) (int, string) { return 200 + 300*int(n&1), "good" },
			"body":   func(n int64) (int, string) { return 200, [2]string{"good", "evil"}[n&1] },
		} {
			out, err := answering(t, bad).run(context.Background())
			if err != nil || out.bad == 0 || out.firstBad == "" {
				t.Errorf("%s: %v %+v", name, err, out.bad)
			}
		}
	})
	t.Run("canceled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := answering(t, good).run(ctx); err == nil {
			t.Error("a run that was interrupted gave a result")
		}
	})
	t.Run("refused", func(t *testing.T) {
		if _, err := (&drive{addr: "127.0.0.1:1", bodies: [][]byte{nil}, conns: 1,
			duration: time.Second}).run(context.Background()); err == nil {
			t.Error("nobody listens and there was a result")
		}
	})
}

// TestLoadCountsFromWhenDue stalls the only connection: the calls that were due meanwhile must show the wait.
func TestLoadCountsFromWhenDue(t *testing.T) {
	const stall = 150 * time.Millisecond
	d := answering(t, func(n int64) (int, string) {
		if n == 1 {
			<-time.After(stall)
		}
		return 200, "good"
	})
	d.conns, d.rate, d.bodies = 1, 100, d.bodies[:1]
	out, err := d.run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if median := out.latency.at(0.5); out.good != 20 || median < stall/5 {
		t.Errorf("%d good, median %v: the wait of those behind the stalled call is missing", out.good, median)
	}
}

func TestBenchFlags(t *testing.T) {
	t.Setenv("YETT_API_KEY", "")
	for args, want := range map[string]string{
		"ratios --rounds 0":                                         "--rounds 0: want 1 to 100",
		"ratios --seconds 0":                                        "--seconds 0: want 0.1 to 600",
		"ratios --connections 65":                                   "--connections 65: the goals are for 1, 64 and 256",
		"ratios --rows (":                                           "--rows: error parsing regexp",
		"ratios --rows S99":                                         "no row has an id that --rows matches",
		"ratios --rows S1$ --connections 64":                        "no row has an id that --rows matches",
		"ratios --rows ^rules-100000":                               "no row has an id that --rows matches",
		"load --url http://h:1 --rate 0 --key k":                    "--rate 0: want more than 0",
		"load --url https://h:1 --rate 1 --key k":                   "want http://HOST:PORT",
		"load --url http://h --rate 1 --key k":                      "want http://HOST:PORT",
		"load --url http://h:1 --rate 1":                            "load needs an API key",
		"load --url http://h:1 --rate 1 --key a\r":                  "load needs an API key",
		"load --url http://h:1 --rate 1 --key k --connections 9999": "--connections 9999: want 1 to 4096",
		"load --url http://h:1 --rate 1 --key k -o xml":             "-o xml: must be one of table, json, jsonl, yaml",
	} {
		var out, errs bytes.Buffer
		root := Command(func(context.Context, string, io.Writer, io.Writer) error { return errors.New("no gateway here") })
		code := cli.Run(context.Background(), root, strings.Split(args, " "), strings.NewReader(""), &out, &errs)
		if code != cli.ExitUsage || !strings.Contains(errs.String(), want) {
			t.Errorf("bench %s: exit %d, %q, want %q", args, code, errs.String(), want)
		}
	}
}

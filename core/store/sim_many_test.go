package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// simBatch is how many seeds one process runs. A store that has failed leaves goroutines behind that wait for ever, and
// what they hold: some megabytes a seed.
const simBatch = 50

// seedRange are the seeds that YETT_SEED names; n is 0 where it names none.
func seedRange(t *testing.T) (from, n uint64) {
	text := os.Getenv("YETT_SEED")
	if text == "" {
		return 0, 0
	}
	first, last, several := strings.Cut(text, "-")
	if !several {
		last = first
	}
	from, err := strconv.ParseUint(first, 10, 64)
	to, err2 := strconv.ParseUint(last, 10, 64)
	if err := errors.Join(err, err2); err != nil || to < from {
		t.Fatalf("YETT_SEED must be a seed such as 7, or seeds such as 1-50: %v", err)
	}
	return from, to - from + 1
}

// simSeeds is how many seeds are run: the race detector makes each of them ten times as long.
func simSeeds() uint64 {
	full, slow := os.Getenv("YETT_FULL") != "", os.Getenv("YETT_SLOW") != ""
	switch {
	case full && raceEnabled:
		return 200
	case full:
		return 10_000
	case slow && !raceEnabled && !testing.Short():
		return 1000
	case testing.Short():
		return 5
	}
	return 20
}

func TestSimulator(t *testing.T) {
	from, n := seedRange(t)
	if n == 0 {
		from, n = 1, simSeeds()
	}
	if n > simBatch {
		simulateMany(t, from, n)
		return
	}
	all := simSeen{}
	for seed := from; seed < from+n; seed++ {
		s := simulate(t, seed, n == 1)
		for _, line := range s.lines {
			t.Log(line)
		}
		if s.err != nil {
			t.Errorf("seed %d: %v\nYETT_SEED=%d go test ./core/store -run 'TestSimulator$' -v tells every step", seed, s.err,
				seed)
			continue
		}
		all.add(&s.seen)
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s%s", simSaw, text)
}

// simSaw begins the line that says what seeds have seen.
const simSaw = "seen: "

// simulateMany runs seeds in processes of their own, one a processor at a time.
func simulateMany(t *testing.T, from, n uint64) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	batches := make(chan uint64)
	var wg sync.WaitGroup
	var mu sync.Mutex
	all, failed := simSeen{}, false
	for range runtime.NumCPU() {
		wg.Go(func() {
			for first := range batches {
				seeds := fmt.Sprintf("%d-%d", first, min(first+simBatch, from+n)-1)
				cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestSimulator$", "-test.v", "-test.timeout=10m")
				cmd.Env = append(os.Environ(), "YETT_SEED="+seeds, "GOGC=400")
				out, err := cmd.CombinedOutput()
				var seen simSeen
				_, text, _ := strings.Cut(string(out), simSaw)
				text, _, _ = strings.Cut(text, "\n")
				if err = errors.Join(err, json.Unmarshal([]byte(text), &seen)); err != nil {
					t.Errorf("seeds %s: %v\n%s", seeds, err, out)
				}
				mu.Lock()
				all.add(&seen)
				failed = failed || err != nil
				mu.Unlock()
			}
		})
	}
	for first := from; first < from+n && t.Context().Err() == nil; first += simBatch {
		batches <- first
	}
	close(batches)
	wg.Wait()
	t.Logf("%d seeds: %+v", n, all)
	for i, of := 0, reflect.ValueOf(all); i < of.NumField() && !failed; i++ {
		if of.Field(i).Int() == 0 {
			t.Errorf("no %s in %d seeds: the schedules do not come there", of.Type().Field(i).Name, n)
		}
	}
}

// simSeen counts what has happened: a simulator in which nothing happens finds nothing.
type simSeen struct {
	Answers, Refused, Cuts, Ends, Fatal, Stalls, Limits, Redeemed, Spent, Trims, Gaps, Full int
}

func (a *simSeen) add(b *simSeen) {
	to, from := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range to.NumField() {
		to.Field(i).SetInt(to.Field(i).Int() + from.Field(i).Int())
	}
}

// Command yett speaks the protocol of ../peers.py for a built-in scanner of ours: the module in the gateway's sandbox,
// behind the host's search for its triggers, with the work that a gateway allows by default. Argument: the scanner.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"syscall"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/prefilter"
	"github.com/yett-dev/yett/core/wasm/host"
	"github.com/yett-dev/yett/scanners"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

type finding struct {
	Kind  string `json:"kind"`
	Start int    `json:"start"`
	End   int    `json:"end"`
	Low   bool   `json:"low"`
}

type asked struct {
	Texts   []string `json:"texts"`
	Seconds *float64 `json:"seconds"`
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: yett SCANNER")
	}
	if err := run(context.Background(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, name string) (err error) {
	s, err := load(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.host.Close(ctx)) }()
	in, out := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	about := s.module.About()
	if err := out.Encode(map[string]any{"about": "yett " + name + " " + about.Version + ", " + about.Digest[:19],
		"kinds": []string{}}); err != nil {
		return err
	}
	for {
		var a asked
		if err := in.Decode(&a); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		answer, err := s.answer(ctx, a)
		if err != nil {
			return err
		}
		if err := out.Encode(answer); err != nil {
			return err
		}
	}
}

// subject is a module and the search for its triggers.
type subject struct {
	host   *host.Host
	module *host.Module
	search *prefilter.Automaton
	hits   prefilter.Found
}

func load(ctx context.Context, name string) (*subject, error) {
	code, ok := scanners.Builtin(name)
	if !ok {
		return nil, fmt.Errorf("unknown scanner %q: expected one of %v", name, scanners.Names())
	}
	h, err := host.New(ctx, host.Options{CheckConfig: config.CheckModule})
	if err != nil {
		return nil, err
	}
	// Instances serve many calls, as a gateway runs its own scanners. The clock is far away, so that a busy machine
	// changes nothing: what bounds a call is its work.
	m, err := h.Load(ctx, host.Spec{Name: name, Code: code, Isolation: host.Pooled, Instances: 1, Timeout: time.Minute,
		Start: time.Minute, Fuel: 50 * host.FuelPerMillisecond})
	if err != nil {
		return nil, errors.Join(err, h.Close(ctx))
	}
	search, err := prefilter.Compile([][]abi.Trigger{m.Triggers()})
	if err != nil {
		return nil, errors.Join(err, h.Close(ctx))
	}
	return &subject{host: h, module: m, search: search}, nil
}

// scan is what a gateway does with a text. called is false when no trigger is in it.
func (s *subject) scan(ctx context.Context, text string) (found []sdk.Finding, called bool, err error) {
	s.search.Find(text, &s.hits)
	hits, complete := s.hits.Hits(0)
	if complete && len(hits) == 0 {
		return nil, false, nil
	}
	found, err = s.module.ScanHits(ctx, text, hits, complete)
	return found, true, err
}

func (s *subject) answer(ctx context.Context, a asked) (any, error) {
	all, called := make([][]finding, len(a.Texts)), make([]bool, len(a.Texts))
	total := 0
	for i, text := range a.Texts {
		found, entered, err := s.scan(ctx, text)
		if err != nil {
			return nil, fmt.Errorf("text %d of %d bytes: %w", i, len(text), err)
		}
		called[i], all[i] = entered, []finding{}
		for _, f := range found {
			all[i] = append(all[i], finding{f.Kind, f.Start, f.End, f.Severity <= sdk.Low})
		}
		total += len(found)
	}
	if a.Seconds == nil {
		return map[string]any{"found": all, "called": called}, nil
	}
	size, cpu, start := 0, spent(), time.Now()
	for {
		for _, text := range a.Texts {
			if _, _, err := s.scan(ctx, text); err != nil {
				return nil, err
			}
			size += len(text)
		}
		if spent()-cpu >= *a.Seconds {
			break
		}
	}
	return map[string]any{"bytes": size, "cpu": spent() - cpu, "wall": time.Since(start).Seconds(), "found": total}, nil
}

// spent is the processor time of this process, seconds.
func spent() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		log.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

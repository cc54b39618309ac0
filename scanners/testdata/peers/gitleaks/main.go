// Command gitleaks speaks the protocol of ../peers.py for gitleaks' own library with its default rules. It has a module
// of its own, so that nothing of gitleaks is in ours.
package main

import (
	"bufio"
	"encoding/json"
	"io"
	"log"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/zricethezav/gitleaks/v8/detect"
	"github.com/zricethezav/gitleaks/v8/report"
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
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	d, err := detect.NewDetectorDefaultConfig()
	if err != nil {
		return err
	}
	in, out := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	if err := out.Encode(map[string]any{"about": "gitleaks " + version(), "kinds": []string{}}); err != nil {
		return err
	}
	for {
		var a asked
		if err := in.Decode(&a); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := out.Encode(answer(d, a)); err != nil {
			return err
		}
	}
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if strings.HasPrefix(m.Path, "github.com/zricethezav/gitleaks/") {
			return m.Version
		}
	}
	return "unknown"
}

func answer(d *detect.Detector, a asked) any {
	all, total := make([][]finding, len(a.Texts)), 0
	for i, text := range a.Texts {
		found := d.DetectString(text)
		all[i], total = []finding{}, total+len(found)
		for _, f := range found {
			all[i] = append(all[i], places(text, f)...)
		}
	}
	if a.Seconds == nil {
		return map[string]any{"found": all}
	}
	size, cpu, start := 0, spent(), time.Now()
	for {
		for _, text := range a.Texts {
			d.DetectString(text)
			size += len(text)
		}
		if spent()-cpu >= *a.Seconds {
			break
		}
	}
	return map[string]any{"bytes": size, "cpu": spent() - cpu, "wall": time.Since(start).Seconds(), "found": total}
}

// places are all at which the secret stands in the text: gitleaks' own columns count from several places. What does not
// stand there is told as the whole text.
func places(text string, f report.Finding) (out []finding) {
	for at := 0; f.Secret != ""; {
		i := strings.Index(text[at:], f.Secret)
		if i < 0 {
			break
		}
		out = append(out, finding{Kind: f.RuleID, Start: at + i, End: at + i + len(f.Secret)})
		at += i + 1
	}
	if len(out) == 0 {
		out = []finding{{Kind: f.RuleID, End: len(text)}}
	}
	return out
}

// spent is the processor time of this process, seconds.
func spent() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		log.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

package scan

import (
	"fmt"
	"io"
	"time"

	"github.com/yett-dev/yett/cmd/internal/cli"
)

// progress is a line on a terminal that says how far a run has come. Anywhere else it prints nothing.
type progress struct {
	w     io.Writer // nil: none
	last  time.Time
	shown bool
}

// every is how often the line changes.
const every = 100 * time.Millisecond

func newProgress(w io.Writer) *progress {
	if !cli.IsTerminal(w) {
		return &progress{}
	}
	return &progress{w: w, last: time.Now()}
}

// at shows the line, now and then.
func (p *progress) at(files int, bytes int64) {
	if p.w == nil || time.Since(p.last) < every {
		return
	}
	p.last, p.shown = time.Now(), true
	fmt.Fprintf(p.w, "\r\x1b[Kscanning: %s, %d MB", cli.Count(files, "file"), bytes/1e6)
}

// hide clears the line, so that something else can be printed.
func (p *progress) hide() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}

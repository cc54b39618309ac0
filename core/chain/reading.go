package chain

import (
	"context"
	"fmt"
	"time"

	"github.com/yett-dev/yett/core/prefilter"
	"github.com/yett-dev/yett/sdk"
)

// A scanner gets a text as it is and, where it holds escapes, as it reads once they are decoded: a secret hides behind
// none of its spellings, and what scanners find around brackets, names and quotes stays findable, since these are all
// still there. What is found in what a text reads as is found in the bytes that it was decoded from.

// reading is one way in which a text is read.
type reading struct {
	text string
	hits *prefilter.Found // nil when no scanner declares triggers
}

// readings are the text, what it reads as, what that reads as, and so on to maxDecoded.
type readings struct {
	all   []reading
	room  [1]reading // most texts have no escapes
	deep  bool       // there are escapes that nobody has decoded
	plain bool       // the second is the first with its escapes decoded, and no control sequence read
	// apart are those of the same JSON, string by string, where that makes a difference: see readApart. The first is
	// nobody's to scan.
	apart *readings
}

// read prepares the readings of a text, with one pass over each.
func (c *ScanChain) read(text string) *readings {
	rs, _ := c.spare.Get().(*readings)
	if rs == nil {
		rs = new(readings)
	}
	rs.all = append(rs.room[:0], reading{text, c.triggered(text)})
	c.readOn(rs, text)
	return rs
}

// readOn adds what the last reading, a text, reads as, and so on.
func (c *ScanChain) readOn(rs *readings, text string) {
	for ok := true; ok && len(rs.all) <= maxDecoded; {
		if text, ok = decoded(text); ok {
			rs.all = append(rs.all, reading{text, c.triggered(text)})
		}
	}
	if rs.deep = false; len(rs.all) > maxDecoded {
		_, rs.deep = decoded(text)
	}
}

// triggered is the one pass over a text; nil when no scanner declares triggers.
func (c *ScanChain) triggered(text string) *prefilter.Found {
	if c.pass == nil {
		return nil
	}
	hits := c.found.Get().(*prefilter.Found)
	c.pass.Find(text, hits)
	return hits
}

// done gives the readings back, once no step runs any more: a scanner gives up its input when it returns.
func (c *ScanChain) done(rs *readings) {
	if rs.apart != nil {
		c.done(rs.apart)
	}
	for i := range rs.all {
		if hits := rs.all[i].hits; hits != nil {
			c.found.Put(hits)
		}
	}
	rs.all, rs.room, rs.plain, rs.apart = nil, [1]reading{}, false, nil
	c.spare.Put(rs)
}

// of are the places of a step's triggers; complete says that it can find nothing elsewhere.
func (r *reading) of(s *ScanStep) (hits []prefilter.Hit, complete bool) {
	if r.hits == nil || s.set < 0 {
		return nil, false
	}
	return r.hits.Hits(s.set)
}

// toText moves findings in reading k to the text itself.
func (rs *readings) toText(k int, found []sdk.Finding) {
	for ; k > 0; k-- {
		toUnits(units{text: rs.all[k-1].text, final: true, plain: rs.plain && k == 1}, found, 0, 0)
	}
}

// input is what a step gets of reading k. Scanners that take JSON apart must not be told that a decoded reading is
// JSON.
func (rs *readings) input(k int, in *Input) Input {
	own := *in
	if own.Text = rs.all[k].text; k > 0 {
		own.ContentType = decodedType
	}
	return own
}

const decodedType = "text/plain; charset=utf-8"

// scanReading asks a step about one reading. called is false when the reading holds nothing that the scanner could
// find.
func (c *ScanChain) scanReading(ctx context.Context, s *ScanStep, in *Input, rs *readings, k int,
	start, end time.Time) (found []sdk.Finding, called bool, err error) {
	hits, complete := rs.all[k].of(s)
	if complete && len(hits) == 0 {
		return nil, false, nil
	}
	own := rs.input(k, in)
	own.Hits, own.HitsComplete = hits, complete
	if err = c.inTime(ctx, end); err == nil {
		found, err = limited(ctx, s.Timeout, start, end, func(ctx context.Context) ([]sdk.Finding, error) {
			return s.Scanner.Scan(ctx, &own)
		})
	}
	if err == nil {
		err = valid(found, len(own.Text))
	}
	if err != nil {
		return nil, true, err
	}
	found = c.covering(s, in, found)
	rs.toText(k, found)
	return found, true, nil
}

// inTime says why no scanner may be called any more.
func (c *ScanChain) inTime(ctx context.Context, end time.Time) error {
	err := ctx.Err()
	if err == nil && !c.Now().Before(end) {
		err = fmt.Errorf("the chain's budget of %v was used up before this step: %w", c.Budget, context.DeadlineExceeded)
	}
	return err
}

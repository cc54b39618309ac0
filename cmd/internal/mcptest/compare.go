package mcptest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/yett-dev/yett/cmd/internal/mcptest/rawmcp"
)

// Difference says where two lists of messages differ in a byte, or "".
func Difference(direct, through [][]byte) string {
	for i := range min(len(direct), len(through)) {
		a, b := direct[i], through[i]
		if bytes.Equal(a, b) {
			continue
		}
		at := 0
		for at < len(a) && at < len(b) && a[at] == b[at] {
			at++
		}
		from := max(0, at-40)
		return fmt.Sprintf("message %d of %d differs at byte %d (%d bytes direct, %d through):\ndirect:  %q\nthrough: %q",
			i+1, len(direct), at, len(a), len(b), a[from:min(len(a), at+80)], b[from:min(len(b), at+80)])
	}
	if len(direct) != len(through) {
		return fmt.Sprintf("%d messages direct, %d through", len(direct), len(through))
	}
	return ""
}

// AnswerTo gives an Answerer that answers each request of a method with a result, and other requests not at all.
func AnswerTo(method, result string) Answerer {
	return func(request []byte) []byte {
		m := open(request)
		if m.Method != method {
			return nil
		}
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}
}

// Text is the text of an answer's content, for tests that look at what a gateway wrote by itself. It is empty where
// there is none.
func Text(message []byte) string {
	var texts []string
	for _, block := range contentOf(message) {
		texts = append(texts, block.Text)
	}
	return strings.Join(texts, "\n")
}

// GivenUp says whether a record is of a call that its client gave up.
func GivenUp(r rawmcp.Record) bool { return r.Event == rawmcp.Ended }

// WaitRecord waits until a server has a record that is meant, at most half a minute.
func WaitRecord(ctx context.Context, records func() []rawmcp.Record, meant func(rawmcp.Record) bool) error {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		all := records()
		if slices.ContainsFunc(all, meant) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the server has no such record among %d: %w", len(all), ctx.Err())
		}
	}
}

// ListTools reads the pages of tools/list, at most a number of them, and gives the entries as they came with the
// cursors in between.
func ListTools(
	ctx context.Context, c Conn, era string, most int,
) (entries []json.RawMessage, cursors []string, err error) {
	members := ""
	for page := range most {
		messages, err := do(ctx, c, Request(era, fmt.Sprint(1000+page), "tools/list", members))
		if err != nil {
			return nil, nil, err
		}
		var m struct {
			Result struct {
				Tools      []json.RawMessage `json:"tools"`
				NextCursor string            `json:"nextCursor"`
			} `json:"result"`
			Error json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(messages[len(messages)-1], &m); err != nil {
			return nil, nil, err
		}
		if len(m.Error) > 0 {
			return nil, nil, fmt.Errorf("tools/list: %s", m.Error)
		}
		entries = append(entries, m.Result.Tools...)
		if m.Result.NextCursor == "" {
			return entries, cursors, nil
		}
		cursors = append(cursors, m.Result.NextCursor)
		members = fmt.Sprintf(`"cursor":%q`, m.Result.NextCursor)
	}
	return entries, cursors, nil
}

// TaskID is the id of the task that an answer says has begun, in the form of either era, or "".
func TaskID(answer []byte) string {
	var m struct {
		Result struct {
			TaskID string `json:"taskId"`
			Task   struct {
				TaskID string `json:"taskId"`
			} `json:"task"`
		} `json:"result"`
	}
	if json.Unmarshal(answer, &m) != nil {
		return ""
	}
	return m.Result.TaskID + m.Result.Task.TaskID
}

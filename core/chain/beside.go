package chain

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// askBeside appends the rows of the steps that are Beside, asked at once, and puts all rows in list order. What is said
// does not depend on who answers first: answers are taken in list order, and the first one that denies ends the waiting
// for those behind it, which leave no row, as if they had not been asked. All have returned when it returns, since they
// read the caller's call.
func (a *Authorizer) askBeside(ctx context.Context, c *Call, end time.Time, rows []Row) []Row {
	before := len(rows)
	for i := range a.Steps {
		if s := &a.Steps[i]; s.Beside && s.Match.Holds(c.ToolID, c.AgentID, c.SessionID) {
			rows = append(rows, Row{Step: s, place: i})
		}
	}
	asked := rows[before:]
	if len(asked) == 1 {
		asked[0] = a.askAt(ctx, &asked[0], c, end)
	} else {
		rows = rows[:before+a.askAll(ctx, asked, c, end)]
	}
	if before > 0 {
		slices.SortFunc(rows, func(x, y Row) int { return x.place - y.place })
	}
	return rows
}

// askAll fills in the rows, one goroutine each but for the first, which has to be waited for anyway. It returns how
// many count.
func (a *Authorizer) askAll(ctx context.Context, asked []Row, c *Call, end time.Time) int {
	ctx, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	done := make([]chan struct{}, len(asked))
	for i := range asked[1:] {
		row, over := &asked[i+1], make(chan struct{})
		done[i+1] = over
		all.Go(func() {
			defer close(over)
			*row = a.askAt(ctx, row, c, end)
		})
	}
	asked[0] = a.askAt(ctx, &asked[0], c, end)
	for i := range asked {
		if done[i] != nil {
			<-done[i]
		}
		if asked[i].ends() {
			return i + 1
		}
	}
	return len(asked)
}

// askAt is ask. A panic in a goroutine of ours would end the whole gateway, where one in its caller's ends a request.
func (a *Authorizer) askAt(ctx context.Context, at *Row, c *Call, end time.Time) (row Row) {
	step, place := at.Step, at.place
	defer func() {
		if r := recover(); r != nil {
			err := fmt.Errorf("the step panicked: %v", r)
			row = Row{Step: step, Verdict: onError(step.Name, step.OnError, err), Err: err}
		}
		row.place = place
	}()
	return a.ask(ctx, step, c, end)
}

package scan

import (
	"context"
	"sync"

	"github.com/yett-dev/yett/sdk"
)

// job is an item on its way: done has the result.
type job struct {
	item
	done chan result
}

// each scans the items with so many workers and gives the results in the order of the items. It holds no more than a
// few results for each worker. When ctx ends, items that were begun give an error and no more are taken; each then
// reports that it did not get to the end.
func (e *engine) each(ctx context.Context, all items, workers int, least sdk.Severity, most int64,
	take func(result) error) (interrupted bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	queue := make(chan *job)
	order := make(chan *job, 8*workers)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for j := range queue {
				j.done <- e.work(ctx, j.item, least, most)
			}
		})
	}
	cut := false
	group.Go(func() {
		defer close(order)
		defer close(queue)
		for it := range all {
			j := &job{it, make(chan result, 1)}
			select {
			case order <- j:
			case <-ctx.Done():
				cut = true
				return
			}
			if it.skip != "" || it.err != nil {
				j.done <- e.work(ctx, it, least, most)
				continue
			}
			select {
			case queue <- j:
			case <-ctx.Done():
				j.done <- result{item: it, places: newPlaces(it.name, least)}.fail(ctx.Err())
				cut = true
				return
			}
		}
		cut = ctx.Err() != nil // items end with ctx
	})
	for j := range order {
		if res := <-j.done; err == nil {
			if err = take(res); err != nil {
				stop()
			}
		}
	}
	group.Wait()
	return cut, err
}

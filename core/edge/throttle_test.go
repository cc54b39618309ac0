package edge

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// However many messages there are and from wherever, the first one is logged and then one in each interval, with the
// number of those between.
func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var logged []string
		th := NewThrottle("door", 10*time.Second, func(f string, a ...any) {
			mu.Lock()
			defer mu.Unlock()
			logged = append(logged, fmt.Sprintf(f, a...))
		})
		th.Log("first %d%%", 1)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { th.Log("lost") })
		}
		all.Wait()
		time.Sleep(10*time.Second - time.Nanosecond)
		th.Log("lost too")
		time.Sleep(time.Nanosecond)
		th.Log("second")
		time.Sleep(time.Minute)
		th.Log("third")
		want := []string{"door: first 1%", "door: 101 messages were not logged: more than one in 10s", "door: second",
			"door: third"}
		if !slices.Equal(logged, want) {
			t.Errorf("logged %q, want %q", logged, want)
		}
	})
}

package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The probe asks until the service is back, slower and slower, and then stops asking.
func TestProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []time.Duration
		began := time.Now()
		p := StartProbe(func(context.Context) error {
			asked = append(asked, time.Since(began))
			if len(asked) < 5 {
				return fmt.Errorf("away %d", len(asked))
			}
			return nil
		})
		defer p.Stop()
		if p.State() != nil {
			t.Error("unhealthy before anything happened")
		}
		p.Set(errors.New("away"))
		time.Sleep(time.Hour)
		synctest.Wait()
		want := []time.Duration{time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second, 30 * time.Second}
		if !slices.Equal(asked, want) || p.State() != nil {
			t.Errorf("asked at %v, state %v", asked, p.State())
		}
		p.Set(errors.New("away again"))
		p.Set(nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(asked) != len(want) {
			t.Errorf("asked %d times of a healthy service", len(asked)-len(want))
		}
	})
}

package host

import (
	"context"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/chain"
)

// BenchmarkWorkerScan4KiB is what the way to a worker and back adds to a scan.
func BenchmarkWorkerScan4KiB(b *testing.B) {
	in := &chain.Input{Text: strings.Repeat("x", 4<<10)}
	for name, g := range map[string]guest{"noop": noop(), "reads": finder()} {
		m, w := load(b, g, nil), spawn(b, g, nil, tuning(nil))
		for where, s := range map[string]chain.Scanner{"inside": m, "worker": w} {
			b.Run(name+"/"+where, func(b *testing.B) {
				b.SetBytes(4 << 10)
				b.ReportAllocs()
				ctx := context.Background()
				for b.Loop() {
					if _, err := s.Scan(ctx, in); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(name+"/"+where+"/parallel", func(b *testing.B) {
				b.SetBytes(4 << 10)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if _, err := s.Scan(context.Background(), in); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}

func BenchmarkAdmit(b *testing.B) {
	tr := newTrial()
	for b.Loop() {
		if _, err := tr.admit(specOf(noop())); err != nil {
			b.Fatal(err)
		}
	}
}

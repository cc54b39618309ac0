package formats_test

import (
	"io"
	"testing"

	"github.com/yett-dev/yett/core/log/formats"
)

// BenchmarkFormats converts the records of testdata in turn.
func BenchmarkFormats(b *testing.B) {
	lines := records(b)
	for _, format := range formats.Names {
		b.Run(format, func(b *testing.B) {
			w, err := formats.New(format, io.Discard)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			size := 0
			for i := 0; b.Loop(); i++ {
				line := lines[i%len(lines)]
				size += len(line)
				if err := w.Record(line); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(size / b.N))
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

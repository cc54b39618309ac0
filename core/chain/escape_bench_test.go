package chain

import (
	"strings"
	"testing"
)

// BenchmarkReadings is what the readings of a text cost beside what scanners do with them.
func BenchmarkReadings(b *testing.B) {
	for name, text := range map[string]string{
		"no escapes":  strings.Repeat(`{"name":"some text without any"},`, 4096/33),
		"line breaks": strings.Repeat(`a line of a file, as tools answer with them\n`, 4096/45),
		"backslashes": strings.Repeat(`\`, 4096),
		"unicode":     strings.Repeat(`\u0061`, 4096/6),
		"no escape":   strings.Repeat(`\d`, 4096/2),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				for range Readings(text) {
				}
			}
		})
	}
}

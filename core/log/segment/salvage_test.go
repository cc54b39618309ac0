package segment

import (
	"testing"

	"github.com/yett-dev/yett/core/log"
)

// FuzzSalvage: whatever the bytes are, what is given as a commit has the records that it says.
func FuzzSalvage(f *testing.F) {
	store := Store{ID: "sto_TEST", Epoch: 1, Salt: log.NewSalt("sto_TEST", 1)}
	tree := &log.Tree{}
	c := &log.Commit{Number: 1, First: 1, Count: 1, Records: []byte("\x00\x00\x00\x02{}")}
	c.Hashes = tree.Append([]byte("{}"), nil)
	var info Info
	data, err := encode(store, &log.Tree{}, []*log.Commit{c}, &info)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:len(data)-tailSize])
	f.Add(append([]byte{'x'}, data[1:]...))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = Salvage(data, []Store{store}, func(c *log.Commit) error {
			n := uint64(0)
			if err := c.Each(func(uint64, []byte) error { n++; return nil }); err == nil && n != c.Count {
				t.Errorf("commit %d has %d records, and says %d", c.Number, n, c.Count)
			}
			return nil
		})
	})
}

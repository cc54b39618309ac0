package edge

import "sync"

// Crowd bounds how many requests run at once. The last quarter is for callers that have few of them, and a few more beyond all are for what
// is urgent of these: no number of one caller's requests keeps another's out. Safe for concurrent use.
type Crowd struct {
	most, few, spare int

	mu  sync.Mutex
	all int
	of  map[string]int
}

// NewCrowd makes a Crowd of that many requests, and of some more that are urgent.
func NewCrowd(most, spare int) *Crowd {
	return &Crowd{most: most, few: max(most/64, 4), spare: spare, of: map[string]int{}}
}

// Enter counts a caller's request in, or reports that there is no room for it.
func (c *Crowd) Enter(caller string, urgent bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	most, own := c.most, c.of[caller]
	switch {
	case own >= c.few:
		most -= most / 4
	case urgent:
		most += c.spare
	}
	if c.all >= most {
		return false
	}
	c.all++
	c.of[caller] = own + 1
	return true
}

// Leave counts a request out that Enter has counted in.
func (c *Crowd) Leave(caller string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.of[caller]--; c.of[caller] == 0 {
		delete(c.of, caller)
	}
}

// Size is how many requests run.
func (c *Crowd) Size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all
}

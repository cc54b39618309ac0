package edge

import "sync"

// Crowd bounds how many requests run at once. The last quarter is for callers that have few of them, and a few more
// beyond all are for what is urgent of these: no number of one caller's requests keeps another's out. What is urgent
// counts apart, so a caller's other requests do not keep it out either. Safe for concurrent use.
type Crowd struct {
	most, few, spare int

	mu  sync.Mutex
	all int
	of  map[account]int
}

// account is what a request counts for.
type account struct {
	caller string
	urgent bool
}

// NewCrowd makes a Crowd of that many requests, and of some more that are urgent.
func NewCrowd(most, spare int) *Crowd {
	return &Crowd{most: most, few: max(most/64, 4), spare: spare, of: map[account]int{}}
}

// Enter counts a caller's request in, or reports that there is no room for it.
func (c *Crowd) Enter(caller string, urgent bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	who := account{caller, urgent}
	most, own := c.most, c.of[who]
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
	c.of[who] = own + 1
	return true
}

// Leave counts a request out that Enter has counted in.
func (c *Crowd) Leave(caller string, urgent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	who := account{caller, urgent}
	c.all--
	if c.of[who]--; c.of[who] == 0 {
		delete(c.of, who)
	}
}

// Size is how many requests run.
func (c *Crowd) Size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all
}

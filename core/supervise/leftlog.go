package supervise

import "sync"

// leftLog is told once of each process that is ended since a gateway that was killed had left it behind.
var leftLog struct {
	sync.Mutex
	tell func(pid int, name string)
	told map[int]bool
}

// OnLeftEnded has the processes told that a gateway which was killed had left behind, as they are ended. nil: nobody
// wants to know.
func OnLeftEnded(tell func(pid int, name string)) {
	leftLog.Lock()
	defer leftLog.Unlock()
	leftLog.tell, leftLog.told = tell, map[int]bool{}
}

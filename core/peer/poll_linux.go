package peer

import "golang.org/x/sys/unix"

// writingEnded is the event of a peer that has ended its own writing.
const writingEnded = unix.POLLRDHUP

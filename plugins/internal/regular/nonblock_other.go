//go:build !unix

package regular

// Nonblock is nothing where there are no named pipes in the file system.
const Nonblock = 0

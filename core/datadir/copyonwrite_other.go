//go:build unix && !linux

package datadir

// CopyOnWrite names the file system of a directory if it is one on which files reserve no room. It knows those of Linux
// only.
func CopyOnWrite(string) (string, error) { return "", nil }

// DiskSize is the size of that file system, bytes; 0: not known.
func DiskSize(string) (uint64, error) { return 0, nil }

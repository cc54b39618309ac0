//go:build !unix

package hookfile

import "io/fs"

// ownerOf knows no owners here, so no file is trusted.
func ownerOf(fs.FileInfo) (uid int, known bool) { return 0, false }

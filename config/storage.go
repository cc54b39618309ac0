package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/yett-dev/yett/config/strict"
)

// Storage is where keys, defers, grants and the audit log live.
type Storage struct {
	Path    Path   `koanf:"path" example:"/var/lib/yett" restart:"true" doc:"Directory of the database; made if it does not exist. Required to serve."`
	Engine  string `koanf:"engine" default:"pebble" enum:"pebble" later:"etcd" restart:"true" doc:"What keeps the data. etcd is reserved until it exists."`
	MinFree string `koanf:"min_free" default:"5%" format:"share" restart:"true" doc:"How much of the disk of path stays free: a share such as 5%, which is at least 256MiB (on a disk under 1GiB: a quarter of it), or a size, which may be smaller. It is never less than 22MiB: what the database needs to write what is in memory. With less free space every call is denied; kills, their undoing, denials, withdrawals, revocations and reads go on. When space becomes free, calls are decided again without a restart."`
	Ballast Size   `koanf:"ballast" default:"64MiB" max:"1TiB" restart:"true" doc:"Size of files of random bytes in path that are removed when the disk is full, so that kills and revocations can still be written and the server can start. They are made in the first seconds, a piece at a time; at most an eighth of the disk. 0B makes none. On a copy-on-write file system (btrfs, zfs, bcachefs) none are made, since they reserve nothing there."`
}

// leastShare is the least that a share stands for, where the disk is four times as large.
const leastShare = 256 << 20

// Forms has the form of min_free.
func (Storage) Forms() map[string]strict.Form {
	return map[string]strict.Form{"share": {Pattern: `^([1-9]|[1-8][0-9]|90)%$|^[0-9]+(B|KiB|MiB|GiB|TiB)$`,
		Check: func(s string) error {
			_, _, err := shareOf(s)
			return err
		}}}
}

// shareOf reads a share of 1 to 90 percent, or a size.
func shareOf(s string) (percent uint64, size Size, err error) {
	if number, ok := strings.CutSuffix(s, "%"); ok {
		percent, err = strconv.ParseUint(number, 10, 8)
		if err != nil || percent < 1 || percent > 90 || strings.HasPrefix(number, "0") {
			return 0, 0, strict.Wants("1% to 90%, or a size such as 2GiB", s)
		}
		return percent, 0, nil
	}
	if size, err = strict.ParseSize(s); err != nil {
		return 0, 0, fmt.Errorf("wants 1%% to 90%%, or a size such as 2GiB, not %s", strict.Literal(s))
	}
	return 0, size, nil
}

// LeastFree is how many bytes of a disk of that size stay free.
func (s *Storage) LeastFree(total uint64) uint64 {
	percent, size, err := shareOf(s.MinFree)
	switch {
	case err != nil: // one that was never read from a file
		return min(leastShare, total/4)
	case percent == 0:
		return uint64(size)
	}
	return max(total/100*percent, min(leastShare, total/4))
}

func (s *Storage) validate(r *strict.Report, serve bool) {
	if serve && s.Path == "" {
		r.Errorf("storage.path", "is required to serve: the directory that holds keys, approvals and the audit log; set "+
			"it, or give --data DIR")
	}
}

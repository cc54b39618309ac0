package segment

import "path/filepath"

// WriteList makes the list of a directory anew, whole and on disk: for a copy of a log, or one that goes on under
// another name.
func WriteList(fs FS, dir string, store Store, infos []Info) error {
	l := &List{fs: fs, dir: dir, store: store, infos: infos}
	return l.rewrite()
}

// ReadList reads the list of a directory, which must be there, and changes nothing.
func ReadList(fs FS, dir string, store Store) ([]Info, error) {
	f, err := fs.Open(filepath.Join(dir, ListName))
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	l := &List{fs: fs, dir: dir, store: store}
	err = l.parse()
	return l.infos, err
}

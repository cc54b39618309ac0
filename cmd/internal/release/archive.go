package main

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"os"
	"time"
)

// entry is one file of an archive.
type entry struct {
	name string // in the archive, below its folder
	path string // where it is read from
	mode int64
}

// writeArchive writes a gzipped tar whose bytes depend on nothing but the files, their order and at: no owner, no
// clock, no name of a machine.
func writeArchive(w io.Writer, folder string, files []entry, at time.Time) error {
	zip, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	out := tar.NewWriter(zip)
	for _, f := range files {
		text, err := os.ReadFile(f.path)
		if err != nil {
			return err
		}
		head := &tar.Header{Typeflag: tar.TypeReg, Name: folder + "/" + f.name, Mode: f.mode, Size: int64(len(text)),
			ModTime: at, Format: tar.FormatUSTAR}
		if err := out.WriteHeader(head); err != nil {
			return err
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
	if err := out.Close(); err != nil {
		return err
	}
	return zip.Close()
}

package admin

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/store"
)

var tarFiles = []struct{ name, data string }{{"db/CURRENT", "x"}, {"log/00000000000000000001.seg",
	strings.Repeat("record", 1000)}, {"log/empty", ""}, {"log/block", strings.Repeat("b", 2*tarBlock)},
	{store.ManifestName, "{}"}}

func tarred(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	out, end := TarOut(&b)
	for _, f := range tarFiles {
		if err := out(f.name, int64(len(f.data)), strings.NewReader(f.data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// What we write is what the standard library reads.
func TestTarIsAnybodysTar(t *testing.T) {
	r := tar.NewReader(bytes.NewReader(tarred(t)))
	for _, f := range tarFiles {
		h, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil || h.Name != f.name || string(data) != f.data || h.Mode != 0o600 || h.Typeflag != tar.TypeReg {
			t.Errorf("%+v with %d bytes: %v", h, len(data), err)
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("behind the last file: %v", err)
	}
	h, err := tarHeader("log/large", 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	large, err := tar.NewReader(bytes.NewReader(h)).Next()
	if err != nil || large.Size != 1<<40 {
		t.Errorf("a file of a TiB: %+v, %v", large, err)
	}
	if name, size, err := parseTar(h); err != nil || name != "log/large" || size != 1<<40 {
		t.Errorf("a file of a TiB: %q, %d, %v", name, size, err)
	}
}

func readTar(data []byte) (names []string, err error) {
	err = ReadTar(bytes.NewReader(data), func(name string, size int64, data io.Reader) error {
		if len(names)%2 == 0 { // what is not read is passed over
			if n, err := io.Copy(io.Discard, data); err != nil || n > size {
				return errors.Join(err, errors.New("too much"))
			}
		}
		names = append(names, name)
		return nil
	})
	return names, err
}

func TestTarRefusesWhatIsCutOrForeign(t *testing.T) {
	whole := tarred(t)
	if names, err := readTar(whole); err != nil || len(names) != len(tarFiles) {
		t.Fatalf("%v: %v", names, err)
	}
	for _, n := range []int{0, 1, tarBlock - 1, tarBlock, tarBlock + 1, len(whole) - 2*tarBlock} {
		if _, err := readTar(whole[:n]); err == nil || !strings.Contains(err.Error(), "cut") {
			t.Errorf("its first %d bytes: %v", n, err)
		}
	}
	flipped := bytes.Clone(whole)
	flipped[3] ^= 1
	if _, err := readTar(flipped); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("a flipped bit: %v", err)
	}
	var link bytes.Buffer
	w := tar.NewWriter(&link)
	if err := w.WriteHeader(&tar.Header{Name: "db/x", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := readTar(link.Bytes()); err == nil || !strings.Contains(err.Error(), "no plain file") {
		t.Errorf("a symbolic link: %v", err)
	}
}

func FuzzReadTar(f *testing.F) {
	f.Add(tarred(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = readTar(data) // ends, and neither panics nor gives more than there is
	})
}

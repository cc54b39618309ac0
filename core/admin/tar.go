package admin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/yett-dev/yett/core/store"
)

// A backup travels as a tar archive (POSIX ustar) of plain files, which any tar reads. The standard library's package
// knows far more of archives than that, and would be a quarter of a percent of the program.
const (
	tarBlock    = 512
	tarNameMost = 100
	tarOctal    = 1<<33 - 1 // the largest size that eleven octal digits say; a larger one is binary, as GNU tar has it
)

// The places of a header's members: name, mode, size, checksum, type, magic.
const (
	tarMode, tarSize, tarTime, tarSum, tarType, tarMagic = 100, 124, 136, 148, 156, 257
)

func tarHeader(name string, size int64) ([]byte, error) {
	if len(name) > tarNameMost {
		return nil, fmt.Errorf("%q has %d bytes, a name in the archive has at most %d", name, len(name), tarNameMost)
	}
	h := make([]byte, tarBlock)
	copy(h, name)
	copy(h[tarMode:], "0000600\x000000000\x000000000\x00")
	if size <= tarOctal {
		copy(h[tarSize:], fmt.Sprintf("%011o", size))
	} else {
		h[tarSize] = 0x80
		binary.BigEndian.PutUint64(h[tarSize+4:], uint64(size))
	}
	copy(h[tarTime:], "00000000000")
	h[tarType] = '0'
	copy(h[tarMagic:], "ustar\x0000")
	copy(h[tarSum:], fmt.Sprintf("%06o\x00 ", tarSumOf(h)))
	return h, nil
}

// tarSumOf adds up the bytes of a header, those of its sum as spaces.
func tarSumOf(h []byte) (sum int64) {
	for i, b := range h {
		if i >= tarSum && i < tarSum+8 {
			b = ' '
		}
		sum += int64(b)
	}
	return sum
}

var tarZeros [2 * tarBlock]byte

func tarPad(size int64) int64 { return (tarBlock - size%tarBlock) % tarBlock }

// TarOut writes the files of a backup to w as a tar archive. What it gives must be called when all of them were
// written.
func TarOut(w io.Writer) (out store.BackupOut, end func() error) {
	out = func(name string, size int64, data io.Reader) error {
		h, err := tarHeader(name, size)
		if err != nil {
			return err
		}
		if _, err := w.Write(h); err != nil {
			return err
		}
		n, err := io.Copy(w, data)
		if err == nil && n != size {
			err = fmt.Errorf("%s has %d bytes, expected %d", name, n, size)
		}
		if err != nil {
			return err
		}
		_, err = w.Write(tarZeros[:tarPad(size)])
		return err
	}
	return out, func() error { _, err := w.Write(tarZeros[:]); return err }
}

// ReadTar gives the files of an archive to fn, which need not read them. It refuses everything that is no plain file.
func ReadTar(r io.Reader, fn func(name string, size int64, data io.Reader) error) error {
	h := make([]byte, tarBlock)
	for {
		if _, err := io.ReadFull(r, h); err != nil {
			return tarCut(err)
		}
		if bytes.Equal(h, tarZeros[:tarBlock]) { // the end has two of them, and zeros behind
			_, err := io.Copy(io.Discard, r)
			return err
		}
		name, size, err := parseTar(h)
		if err != nil {
			return err
		}
		data := io.LimitReader(r, size).(*io.LimitedReader)
		if err := fn(name, size, data); err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, r, data.N+tarPad(size)); err != nil {
			return tarCut(err)
		}
	}
}

func tarCut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the archive is cut: its end is missing")
	}
	return err
}

func parseTar(h []byte) (name string, size int64, err error) {
	text := func(from, most int) string { return string(bytes.TrimRight(h[from:from+most], "\x00 ")) }
	sum, err := strconv.ParseInt(text(tarSum, 8), 8, 64)
	if err != nil || sum != tarSumOf(h) || string(h[tarMagic:tarMagic+5]) != "ustar" {
		return "", 0, errors.New("this is no tar archive, or one that is damaged: a header has a wrong checksum")
	}
	plain, _, _ := bytes.Cut(h[:tarNameMost], []byte{0})
	name = string(plain)
	if h[tarType] != '0' || h[tarMagic+88] != 0 { // a prefix of the name
		return "", 0, fmt.Errorf("the archive: %q is no plain file, or has a long name", name)
	}
	if h[tarSize]&0x80 != 0 {
		size = int64(binary.BigEndian.Uint64(h[tarSize+4:]))
	} else if size, err = strconv.ParseInt(text(tarSize, 12), 8, 64); err != nil {
		return "", 0, fmt.Errorf("the archive: the size of %q is no number", name)
	}
	if size < 0 || size > 1<<62 {
		return "", 0, fmt.Errorf("the archive: %q has %d bytes", name, size)
	}
	return name, size, nil
}

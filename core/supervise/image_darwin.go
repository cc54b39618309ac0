package supervise

import (
	"io"
	"os"
)

func ownImage() (*image, error) {
	path, err := os.Executable()
	return &image{name: path, path: path}, err
}

func copyImage(f io.Reader, digest string) (*image, error) { return privateCopy(f, digest) }

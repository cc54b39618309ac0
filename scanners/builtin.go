// Package scanners holds the built-in scanners as WASM modules, built from the folders beside this file. They go
// through the same door as anyone's: bytes that the host admits and runs in its sandbox. Nothing of a scanner's code
// runs in the importer. The modules are committed, and what gzip makes of them, which is what programs that import this
// package hold; go generate rebuilds both and a test compares.
package scanners

import (
	"bytes"
	"compress/gzip"
	"embed"
	"io"
	"io/fs"
	"slices"
	"strings"
)

//go:generate env GOOS=wasip1 GOARCH=wasm GOFLAGS= GOWASM= CGO_ENABLED=0 GOEXPERIMENT= go build -buildmode=c-shared -trimpath -buildvcs=false "-ldflags=-s -w" -o pii/pii.wasm ./pii
//go:generate env GOOS=wasip1 GOARCH=wasm GOFLAGS= GOWASM= CGO_ENABLED=0 GOEXPERIMENT= go build -buildmode=c-shared -trimpath -buildvcs=false "-ldflags=-s -w" -o injection/injection.wasm ./injection

//go:generate env GOOS=wasip1 GOARCH=wasm GOFLAGS= GOWASM= CGO_ENABLED=0 GOEXPERIMENT= go build -buildmode=c-shared -trimpath -buildvcs=false "-ldflags=-s -w" -o secrets/secrets.wasm ./secrets

//go:generate env GOLDEN=write go test -count=1 -run TestPacked .

//go:embed */*.wasm.gz
var modules embed.FS

// Builtin gives the module of a built-in scanner. The bytes are the caller's. ok is false when there is none of that
// name.
func Builtin(name string) (wasm []byte, ok bool) {
	if !slices.Contains(Names(), name) {
		return nil, false
	}
	packed, err := modules.ReadFile(name + "/" + name + ".wasm.gz")
	if err != nil {
		return nil, false
	}
	in, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, false
	}
	wasm, err = io.ReadAll(in)
	return wasm, err == nil
}

// Names lists the built-in scanners, sorted. A module counts when it is named after its folder.
func Names() []string {
	files, err := fs.Glob(modules, "*/*.wasm.gz")
	if err != nil {
		return nil
	}
	var names []string
	for _, f := range files {
		folder, file, _ := strings.Cut(f, "/")
		if file == folder+".wasm.gz" {
			names = append(names, folder)
		}
	}
	slices.Sort(names)
	return names
}

package kit

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/yett-dev/yett/core/pin"
	"github.com/yett-dev/yett/core/wasm/host"
	"github.com/yett-dev/yett/sdk/abi"
	"github.com/yett-dev/yett/sdk/exact"
)

// Package is a module ready to be handed out.
type Package struct {
	Code     []byte       `json:"-"`
	Digest   string       `json:"digest"` // "sha256:<hex>" of Code
	Bytes    int          `json:"bytes"`
	Metadata abi.Metadata `json:"metadata"`
}

// Package embeds the module's metadata as the custom section abi.MetaSection and drops every other custom section. The
// same module gives the same bytes, and so does its package. The module is loaded to ask it, so a module that is not
// let in is not packaged. config are settings with which it starts (nil: {}); nothing of them is in the package.
func (s Settings) Package(ctx context.Context, m Module, config json.RawMessage) (p *Package, err error) {
	wasm, err := s.host(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, wasm.Close(context.WithoutCancel(ctx))) }()
	bare, err := withSection(m.Code, "", nil)
	if err != nil {
		return nil, err
	}
	spec := host.Spec{Name: m.Name, Code: m.Code, Config: config, Instances: 1, Timeout: patience, Start: patience}
	loaded, err := wasm.Load(ctx, spec)
	if err != nil {
		return nil, unset(config, err)
	}
	meta := loaded.Metadata()
	if meta.Name == "" {
		return nil, fmt.Errorf("the module says nothing about itself: it has neither %s nor a section %q", abi.ExportDescribe,
			abi.MetaSection)
	}
	doc, err := canonical(meta)
	if err != nil {
		return nil, err
	}
	code, err := withSection(bare, abi.MetaSection, doc)
	if err != nil {
		return nil, err
	}
	if len(code) > abi.MaxModule {
		return nil, fmt.Errorf("with its metadata the module has %d bytes: at most %d are allowed", len(code), abi.MaxModule)
	}
	spec.Code = code
	if _, err := wasm.Load(ctx, spec); err != nil {
		return nil, fmt.Errorf("the package is not let in: %w", err)
	}
	return &Package{Code: code, Digest: pin.Digest(code), Bytes: len(code), Metadata: meta}, nil
}

// canonical writes metadata as canonical JSON.
func canonical(meta abi.Metadata) ([]byte, error) {
	text, err := json.Marshal(meta)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	var doc exact.Doc
	if err := doc.Parse(string(text), exact.DefaultLimits); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	return doc.Root().AppendCanonical(nil), nil
}

var errNotModule = errors.New("not a WASM module")

// preamble is what every core module begins with: the magic number and version 1.
const preamble = "\x00asm\x01\x00\x00\x00"

// withSection copies a module without its custom sections and appends one, if it has a name.
func withSection(code []byte, name string, content []byte) ([]byte, error) {
	if !bytes.HasPrefix(code, []byte(preamble)) {
		return nil, errNotModule
	}
	out := append(make([]byte, 0, len(code)+len(content)+32), preamble...)
	for rest := code[len(preamble):]; len(rest) > 0; {
		n, used := binary.Uvarint(rest[1:])
		if used <= 0 || used > 5 || n > uint64(len(rest)-1-used) {
			return nil, fmt.Errorf("%w: section at byte %d is cut off", errNotModule, len(code)-len(rest))
		}
		end := 1 + used + int(n)
		if rest[0] != 0 {
			out = append(out, rest[:end]...)
		}
		rest = rest[end:]
	}
	if name == "" {
		return out, nil
	}
	body := append(binary.AppendUvarint(nil, uint64(len(name))), name...)
	body = append(body, content...)
	out = binary.AppendUvarint(append(out, 0), uint64(len(body)))
	return append(out, body...), nil
}

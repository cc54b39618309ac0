package admin

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/admin"
	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/log/formats"
	"github.com/yett-dev/yett/core/regular"
	"github.com/yett-dev/yett/core/store"
)

// jsonl is the format of the log itself, the only one that can be verified.
const jsonl = "jsonl"

// export is what yett audit export is told, and what it has found.
type export struct {
	t              target
	out            cli.Output
	file, in       string
	format         string
	keys           []string
	asked, written log.Range
	unknown        []string
}

func auditExport() *cobra.Command {
	var e export
	cmd := &cobra.Command{
		Use:   "export --out FILE",
		Short: "Write the log, or a range of it, as JSON lines, CSV, CEF or OCSF",
		Long: "Write the log to a file (- is stdout), server stopped or running.\n\n" +
			"jsonl is the log itself: line 1 is a header with a signed checkpoint of exactly the records that follow, one\n" +
			"a line. Only this format can be verified (yett audit verify). csv, cef and ocsf are made for other programs;\n" +
			"each of their lines names the store and the seq of its record. They can also be made later, without a server,\n" +
			"from a file of JSON lines: --in EXPORT. What is converted is verified on the way.\n\n" +
			"--from and --to choose records by seq. To go on after an export that was broken off, give --from the last seq\n" +
			"that you have, plus 1. Each file has a header of its own.\n\n" +
			"A file takes its place only when it is whole. With --out - look at the exit code: 0 is whole; 3 is an --in\n" +
			"that was changed or cut.",
		Example: "  yett audit export --data /var/lib/yett --out log.jsonl\n" +
			"  yett audit export --data /var/lib/yett --out log.csv --format csv --from 1001\n" +
			"  yett audit export --in log.jsonl --key audit.pub --out log.ocsf.jsonl --format ocsf",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.run(cmd) },
	}
	e.t.bind(cmd)
	e.out.Bind(cmd)
	fs := cmd.Flags()
	fs.StringVar(&e.file, "out", "", "file to write")
	fs.StringVar(&e.format, "format", jsonl, "jsonl, "+strings.Join(formats.Names, ", "))
	fs.StringVar(&e.in, "in", "", "convert this export, a file of JSON lines, instead of asking a server")
	fs.StringArrayVar(&e.keys, "key", nil, "with --in: the public key of the log, or a file with it (see yett audit "+
		"key); may be repeated")
	fs.Var((*seqFlag)(&e.asked.From), "from", "first record (default: the first that is there)")
	fs.Var((*seqFlag)(&e.asked.To), "to", "last record (default: the newest)")
	return cmd
}

// seqFlag is the number of a record.
type seqFlag uint64

func (f *seqFlag) String() string { return "" }
func (f *seqFlag) Type() string   { return "seq" }

func (f *seqFlag) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 62)
	if err != nil || n == 0 {
		return errors.New("expected the number of a record, from 1")
	}
	*f = seqFlag(n)
	return nil
}

func (e *export) check() error {
	switch {
	case e.file == "":
		return cli.Usage("--out FILE is required (- for stdout)")
	case e.format != jsonl && !slices.Contains(formats.Names, e.format):
		return cli.Usage("unknown --format %q: expected jsonl, %s", e.format, strings.Join(formats.Names, ", "))
	case e.in != "" && (e.t.data != "" || e.t.config != ""):
		return cli.Usage("give --in, or --data or --config, not both")
	case e.in != "" && e.format == jsonl:
		return cli.Usage("--in is JSON lines already; give --format %s", strings.Join(formats.Names, ", "))
	case e.in == "" && len(e.keys) > 0:
		return cli.Usage("--key is for --in")
	case e.asked.To != 0 && e.asked.To < e.asked.From:
		return cli.Usage("--to must be at least --from, got --from %d --to %d", e.asked.From, e.asked.To)
	}
	return nil
}

func (e *export) run(cmd *cobra.Command) error {
	if err := e.check(); err != nil {
		return err
	}
	if err := writeFile(e.file, cmd.OutOrStdout(), func(w io.Writer) error { return e.write(cmd, w) }); err != nil {
		return err
	}
	if len(e.unknown) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "this version does not know what records of these types mean: %s\n",
			strings.Join(e.unknown, ", "))
	}
	if e.file == "-" { // stdout has the log
		return nil
	}
	info, err := os.Stat(e.file)
	if err != nil {
		return err
	}
	row := struct {
		File    string `json:"file"`
		Bytes   int64  `json:"bytes"`
		Format  string `json:"format"`
		FromSeq uint64 `json:"from_seq"`
		ToSeq   uint64 `json:"to_seq"` // from_seq - 1 when there is no record
	}{e.file, info.Size(), e.format, e.written.From, e.written.To}
	if e.written.To < e.written.From {
		return e.out.Done(cmd, row, "%s has no records: record %d is not written yet", e.file, e.written.From)
	}
	return e.out.Done(cmd, row, "%s has records %d to %d, %s", e.file, row.FromSeq, row.ToSeq,
		cli.Count(int(row.Bytes), "byte"))
}

func (e *export) write(cmd *cobra.Command, w io.Writer) error {
	if e.in != "" {
		return e.fromFile(cmd, w)
	}
	dir, err := e.t.dir()
	if err != nil {
		return err
	}
	if e.format == jsonl {
		return fetch(cmd.Context(), dir, e.asked, &headed{Writer: w, begin: e.begin})
	}
	r, fetched := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := fetch(cmd.Context(), dir, e.asked, fetched)
		done <- errors.Join(err, fetched.CloseWithError(err))
	}()
	err = e.convert(r, w, log.VerifyOptions{Begin: e.begin})
	r.CloseWithError(io.ErrClosedPipe) // a reader that has stopped must not keep the writer
	if fetchErr := <-done; fetchErr != nil && !errors.Is(fetchErr, io.ErrClosedPipe) {
		return fetchErr
	}
	return err
}

// begin refuses what is not what was asked for, as from a server that does not know ranges.
func (e *export) begin(h *log.Header) error {
	if e.asked.From != 0 && h.FromSeq != e.asked.From || e.asked.To != 0 && h.ToSeq != e.asked.To {
		return fmt.Errorf("the server gives records %d to %d, whatever it is asked for: restart it with this version",
			h.FromSeq, h.ToSeq)
	}
	e.written = log.Range{From: h.FromSeq, To: h.ToSeq}
	return nil
}

// fromFile converts an export that was written before.
func (e *export) fromFile(cmd *cobra.Command, w io.Writer) error {
	v := verify{keys: e.keys}
	keys, err := v.trusted()
	if err != nil {
		return err
	}
	f, err := regular.Named(cmd.Context(), e.in)
	if err != nil {
		return err
	}
	defer f.Close()
	err = e.convert(f, w, log.VerifyOptions{Keys: keys, Begin: e.choose})
	if fault, ok := errors.AsType[*log.Fault](err); ok {
		return cli.Fail(cli.ExitTampered, fmt.Errorf("%s, line %d: it was changed or cut: %w", e.in, fault.Line, err))
	}
	if err == nil && len(keys) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), notPinned)
	}
	return err
}

// choose takes the records that were asked for out of those that the file has.
func (e *export) choose(h *log.Header) error {
	e.written = log.Range{From: h.FromSeq, To: h.ToSeq}
	if e.asked.From != 0 {
		e.written.From = e.asked.From
	}
	if e.asked.To != 0 {
		e.written.To = e.asked.To
	}
	if e.written.From < h.FromSeq || e.written.To > h.ToSeq || e.written.From > e.written.To+1 {
		return fmt.Errorf("%s has records %d to %d, not %d to %d: choose others with --from and --to", e.in, h.FromSeq,
			h.ToSeq, e.written.From, e.written.To)
	}
	return nil
}

// convert reads JSON lines, and writes the records of e.written in another format.
func (e *export) convert(r io.Reader, w io.Writer, o log.VerifyOptions) error {
	lines := bufio.NewWriterSize(w, 1<<16)
	var to *formats.Writer
	begin := o.Begin
	o.Begin = func(h *log.Header) (err error) {
		if err = begin(h); err == nil {
			to, err = formats.New(e.format, lines)
		}
		return err
	}
	o.Each = func(seq uint64, record []byte) error {
		if seq < e.written.From || seq > e.written.To {
			return nil
		}
		err := to.Record(record)
		if invalid, ok := errors.AsType[*formats.Invalid](err); ok {
			return &log.Fault{Seq: seq, Why: invalid.Error()}
		}
		return err
	}
	_, err := log.Verify(r, o)
	if to == nil {
		return err
	}
	e.unknown = to.Unknown()
	if flushed := lines.Flush(); err == nil { // what was read in front of an error can be gone on from
		err = flushed
	}
	return err
}

// headed passes an export on, and tells begin its header before anything of it.
type headed struct {
	io.Writer
	begin func(h *log.Header) error
	line  []byte
	told  bool
}

func (w *headed) Write(b []byte) (int, error) {
	if w.told {
		return w.Writer.Write(b)
	}
	w.line = append(w.line, b...)
	end := bytes.IndexByte(w.line, '\n')
	if end < 0 {
		return len(b), nil
	}
	h, err := log.ParseHeader(w.line[:end])
	if err == nil {
		err = w.begin(h)
	}
	if err != nil {
		return 0, err
	}
	w.told = true
	if _, err := w.Writer.Write(w.line); err != nil {
		return 0, err
	}
	w.line = nil
	return len(b), nil
}

// fetch asks the running server, or opens the store itself when none runs.
func fetch(ctx context.Context, dir string, asked log.Range, w io.Writer) error {
	c, err := admin.Dial(dir)
	if err == nil {
		defer c.Close()
		query := url.Values{}
		if asked.From != 0 {
			query.Set("from", strconv.FormatUint(asked.From, 10))
		}
		if asked.To != 0 {
			query.Set("to", strconv.FormatUint(asked.To, 10))
		}
		err = c.Stream(ctx, "/audit/export?"+query.Encode(), w)
	}
	if !errors.Is(err, admin.ErrNoServer) {
		return err
	}
	return offline(dir, func(s *store.Store, signer *log.Signer) error { return s.Export(w, signer, asked) })
}

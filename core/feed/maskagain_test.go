package feed

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// A record whose texts cannot be masked at one moment is tried again before it is delivered, and what is behind it
// waits. One that can never be masked is delivered without its texts, which is said and counted.
func TestMaskingIsTriedAgain(t *testing.T) {
	failures, told := map[string]int{"slow": 3, "never": 1 << 30}, []string{}
	mask := func(_ context.Context, text Text) (string, error) {
		for word := range failures {
			if strings.Contains(text.Text, word) && failures[word] > 0 {
				failures[word]--
				return "", &MaskError{Cause: "timeout", Scanner: "secrets", Err: errors.New("late")}
			}
		}
		return strings.ReplaceAll(text.Text, "secret", "[MASKED]"), nil
	}
	set := func(w *world, s *Settings) {
		s.Payload, s.Mask = PayloadRedacted, mask
		s.Withheld = func(cause, scanner string) { told = append(told, cause+" "+scanner) }
		w.payload = func(rec []byte) []byte {
			if bytes.Contains(rec, []byte("never")) {
				return bytes.Replace(rec, []byte(`{"a":"never secret"}`),
					[]byte(`{"withheld":"mask_failed","cause":"timeout","scanner":"secrets"}`), 1)
			}
			return bytes.ReplaceAll(rec, []byte("secret"), []byte("[MASKED]"))
		}
	}
	bubble(t, set, func(t *testing.T, w *world, p *Pump) {
		after(time.Second)
		w.add(3, "decision", `,"args":{"a":"secret"}`)
		w.add(1, "decision", `,"args":{"a":"slow secret"}`)
		w.add(3, "decision", `,"args":{"a":"secret"}`)
		after(500 * time.Millisecond)
		if s := p.Status(); s.Delivered != 3 {
			t.Errorf("%d records are delivered while the fourth cannot be masked", s.Delivered)
		}
		after(10 * time.Second)
		if s := p.Status(); s.Delivered != 7 || len(told) != 0 {
			t.Errorf("%d records are delivered, withheld %q", s.Delivered, told)
		}
		w.add(1, "decision", `,"args":{"a":"never secret"}`)
		w.add(1, "decision", `,"args":{"a":"secret"}`)
		after(time.Minute)
		if s := p.Status(); s.Delivered != 9 || strings.Join(told, "|") != "timeout secrets" {
			t.Errorf("%d records are delivered, withheld %q", s.Delivered, told)
		}
	})
}

// However many records cannot be masked, what is behind them does not wait for each: the first is waited for, and then
// one a minute.
func TestMaskingDelaysOthersLittle(t *testing.T) {
	withheld, lines := 0, 0
	set := func(w *world, s *Settings) {
		s.Payload = PayloadRedacted
		s.Mask = func(_ context.Context, text Text) (string, error) {
			if strings.Contains(text.Text, "never") {
				return "", &MaskError{Cause: "timeout", Scanner: "secrets", Err: errors.New("late")}
			}
			return text.Text, nil
		}
		s.Withheld = func(string, string) { withheld++ }
		s.Report = func(string, ...any) { lines++ }
		w.payload = func(rec []byte) []byte {
			return bytes.Replace(rec, []byte(`{"a":"never"}`),
				[]byte(`{"withheld":"mask_failed","cause":"timeout","scanner":"secrets"}`), 1)
		}
	}
	bubble(t, set, func(t *testing.T, w *world, p *Pump) {
		after(time.Second)
		for range 50 {
			w.add(1, "decision", `,"args":{"a":"never"}`)
			w.add(1, "decision", `,"args":{"a":"plain"}`)
		}
		after(20 * time.Second)
		if s := p.Status(); s.Delivered != 100 || withheld != 50 || lines != 1 {
			t.Errorf("%d records are delivered, %d of them without a text, in %d lines", s.Delivered, withheld, lines)
		}
		after(2 * time.Minute)
		w.add(2, "decision", `,"args":{"a":"never"}`)
		after(20 * time.Second)
		if s := p.Status(); s.Delivered != 102 || withheld != 52 || lines != 2 {
			t.Errorf("a minute later: %d records are delivered, %d without a text, in %d lines", s.Delivered, withheld, lines)
		}
	})
}

// What would not be masked another time is not waited for.
func TestMaskingIsNotTriedAgainInVain(t *testing.T) {
	tries := 0
	set := func(w *world, s *Settings) {
		s.Payload = PayloadRedacted
		s.Mask = func(_ context.Context, text Text) (string, error) {
			if strings.Contains(text.Text, "never") {
				tries++
				return "", &MaskError{Cause: "too_many", Lasts: true, Err: errors.New("too many")}
			}
			return text.Text, nil
		}
		w.payload = func(rec []byte) []byte {
			return bytes.Replace(rec, []byte(`{"a":"never"}`), []byte(`{"withheld":"mask_failed","cause":"too_many"}`), 1)
		}
	}
	bubble(t, set, func(t *testing.T, w *world, p *Pump) {
		after(time.Second)
		w.add(1, "decision", `,"args":{"a":"never"}`)
		w.add(1, "decision", `,"args":{"a":"plain"}`)
		after(500 * time.Millisecond)
		if s := p.Status(); s.Delivered != 2 || tries != 1 {
			t.Errorf("%d records are delivered after %d tries", s.Delivered, tries)
		}
	})
}

package strict

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/yett-dev/yett/core/quote"
)

// Size is a number of bytes. It is written with a unit: B, KiB, MiB, GiB or TiB.
type Size int64

// Duration is a span of time. It is written with units: ns, us, ms, s, m, h or d (24 hours); "1h30m" is one too.
type Duration time.Duration

// Std gives the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// Decimal is an exact number above 0, kept as it was written. It may be written as a number or as text.
type Decimal string

var decimalForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,29})(\.[0-9]{1,18})?$`)

func checkDecimal(s string) error {
	switch {
	case !decimalForm.MatchString(s):
		return Wants("an exact number such as 1000 or 1000.50 (no sign, no exponent, at most 30 digits before the point "+
			"and 18 behind it)", s)
	case strings.Trim(s, "0.") == "":
		return fmt.Errorf("is %s; it must be more than 0", s)
	}
	return nil
}

type unit struct {
	name string
	n    int64
}

var (
	sizeUnits = []unit{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}
	timeUnits = []unit{
		{"d", int64(24 * time.Hour)}, {"h", int64(time.Hour)}, {"m", int64(time.Minute)}, {"s", int64(time.Second)},
		{"ms", int64(time.Millisecond)}, {"us", int64(time.Microsecond)}, {"ns", 1},
	}
)

// ParseSize reads a whole number directly followed by a unit, such as "1MiB" or "512B". A number without a unit, a
// sign, a fraction, a unit of powers of ten and what does not fit 63 bits are errors.
func ParseSize(s string) (Size, error) {
	n, rest, err := amount(s, sizeUnits)
	if err != nil || rest != "" {
		return 0, fmt.Errorf("wants a size such as 64KiB or 1MiB (whole number, unit B, KiB, MiB, GiB or TiB), not %s",
			Literal(s))
	}
	return Size(n), nil
}

// ParseDuration reads whole numbers each directly followed by a unit, larger units first, such as "50ms", "1h30m" or
// "30d". A number without a unit, a sign, a fraction and what does not fit 63 bits of nanoseconds are errors.
func ParseDuration(s string) (Duration, error) {
	bad := fmt.Errorf("wants a duration such as 50ms, 10s, 1h30m or 30d (whole numbers, units d, h, m, s, ms, us, "+
		"ns), not %s", Literal(s))
	total, last, rest := int64(0), int64(math.MaxInt64), s
	for first := true; first || rest != ""; first = false {
		before := rest
		n, r, err := amount(rest, timeUnits)
		if err != nil {
			return 0, bad
		}
		u := unitOf(before[:len(before)-len(r)], timeUnits)
		if u >= last || total > math.MaxInt64-n {
			return 0, bad
		}
		total, last, rest = total+n, u, r
	}
	return Duration(total), nil
}

// amount reads one number with its unit and gives what follows.
func amount(s string, units []unit) (n int64, rest string, err error) {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	j := i
	for j < len(s) && (s[j] < '0' || s[j] > '9') {
		j++
	}
	u := unitOf(s[:j], units)
	if u == 0 {
		return 0, "", fmt.Errorf("no unit")
	}
	n, err = strconv.ParseInt(s[:i], 10, 64)
	if err != nil || n > math.MaxInt64/u {
		return 0, "", fmt.Errorf("no number")
	}
	return n * u, s[j:], nil
}

// unitOf gives the multiplier of the unit behind the digits of s, 0 if there is none.
func unitOf(s string, units []unit) int64 {
	name := strings.TrimLeft(s, "0123456789")
	for _, u := range units {
		if u.name == name && name != s {
			return u.n
		}
	}
	return 0
}

// String gives the shortest exact form, such as "1MiB". ParseSize reads it back.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && int64(s)%u.n == 0 {
			return strconv.FormatInt(int64(s)/u.n, 10) + u.name
		}
	}
	return "0B"
}

// String gives the exact form with the fewest units, such as "30d" or "1h30m". ParseDuration reads it back.
func (d Duration) String() string {
	if d <= 0 {
		return "0s"
	}
	var b strings.Builder
	for n, i := int64(d), 0; n > 0; i++ {
		if u := timeUnits[i]; n >= u.n {
			b.WriteString(strconv.FormatInt(n/u.n, 10) + u.name)
			n %= u.n
		}
	}
	return b.String()
}

// Port is a TCP port, or NoPort.
type Port int

// NoPort stands in a list of ports for no network at all; it is written "none".
const NoPort Port = 0

// String is the port as it is written.
func (p Port) String() string {
	if p == NoPort {
		return "none"
	}
	return strconv.Itoa(int(p))
}

// Literal shows a written value in a message, cut to a readable length.
func Literal(s string) string { return quote.Literal(s, 60) }

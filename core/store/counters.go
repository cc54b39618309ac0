package store

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// Charge is one limit that a permit must stay within, with the counter it is counted on. What is counted lies in
// windows of fixed length that begin at the Unix epoch, in UTC; a window's rows go once it is over.
type Charge struct {
	Counter [16]byte // of step, rule, kind, whom and window
	Step    string
	sdk.Limit
}

// code is the reason code of running into the limit.
func (c *Charge) code() string {
	switch {
	case c.Kind == sdk.LimitLoop:
		return sdk.ReasonLoopDetected
	case c.Kind == sdk.LimitBudget && c.Per == "session":
		return sdk.ReasonBudgetSession
	case c.Kind == sdk.LimitBudget:
		return sdk.ReasonBudgetDaily
	}
	return sdk.ReasonRateExceeded
}

// why says which limit it was, without a value of the call.
func (c *Charge) why() string {
	switch c.Kind {
	case sdk.LimitLoop:
		return fmt.Sprintf("rule %s permits the same call %s times in %v", c.Rule, c.Max, c.Window)
	case sdk.LimitBudget:
		return fmt.Sprintf("the budget of rule %s is %s in %v per %s", c.Rule, c.Max, c.Window, c.Per)
	}
	return fmt.Sprintf("rule %s permits %s calls in %v per %s", c.Rule, c.Max, c.Window, c.Per)
}

// counters holds the sums of windows that were looked at lately. It may be emptied at any time: what is not here is
// read.
type counters map[counterKey]exact.Decimal

type counterKey struct {
	end  uint64 // Unix seconds
	hash [16]byte
}

// maxCounters bounds the sums that are held in memory.
const maxCounters = 100_000

func (k counterKey) row() []byte {
	return append(binary.BigEndian.AppendUint64([]byte{prefixCounter}, k.end), k.hash[:]...)
}

func (c *Charge) at(now time.Time) counterKey {
	n := int64(c.Window / time.Second)
	return counterKey{uint64((now.Unix()/n + 1) * n), c.Counter}
}

func (tx *tx) counted(k counterKey) (exact.Decimal, error) {
	if sum, ok := tx.st.counters[k]; ok {
		return sum, nil
	}
	row, found, err := tx.pendingGet(k.row())
	if err != nil {
		return exact.Decimal{}, unavailable(err)
	}
	if !found {
		return exact.Decimal{}, nil
	}
	sum, err := exact.ParseDecimal(string(row))
	if err != nil {
		return exact.Decimal{}, &sdk.Error{Code: sdk.CodeInternal, Op: "read counter", Err: err}
	}
	return sum, nil
}

// overrun is a limit that a permit would break, and how long until its window ends.
type overrun struct {
	*Charge
	left time.Duration
}

// spared reports whether a repeat leaves the limit alone: it is a call, and spends nothing.
func (c *Charge) spared(repeat bool) bool { return repeat && c.Kind == sdk.LimitBudget }

// within looks whether a permit stays within all of the limits, and gives what their sums would be then. A repeat is
// held to those that count calls.
func (tx *tx) within(charges []Charge, repeat bool) ([]exact.Decimal, *overrun, error) {
	var sums []exact.Decimal
	for i := range charges {
		c := &charges[i]
		if c.spared(repeat) {
			sums = append(sums, exact.Decimal{})
			continue
		}
		k := c.at(tx.now)
		sum, err := tx.counted(k)
		if err != nil {
			return nil, nil, err
		}
		for j := range i { // two limits on one counter are both counted
			if charges[j].Counter == c.Counter && charges[j].at(tx.now) == k && !charges[j].spared(repeat) {
				sum = sums[j]
			}
		}
		amount, err1 := exact.ParseDecimal(c.Amount)
		most, err2 := exact.ParseDecimal(c.Max)
		if err1 != nil || err2 != nil || amount.Sign() < 0 {
			return nil, nil, &sdk.Error{Code: sdk.CodeInternal, Op: "charge a limit", Msg: "an amount that is no number"}
		}
		if sum, err = sum.Sum(amount); err != nil || sum.Cmp(most) > 0 {
			return nil, &overrun{c, time.Unix(int64(k.end), 0).Sub(tx.now)}, nil
		}
		sums = append(sums, sum)
	}
	return sums, nil, nil
}

// charged is what a permit has added to a counter, as it is stored.
type charged struct {
	End     uint64 `json:"end"`     // of the counter's window, Unix seconds
	Counter string `json:"counter"` // hex
	Amount  string `json:"amount"`
}

// giveBack takes off the counters what an earlier permit of the same call has added; again puts it back on. Where a
// window is over there is nothing to give back.
func (tx *tx) giveBack(all []charged, again bool) error {
	for _, c := range all {
		k := counterKey{end: c.End}
		amount, err := exact.ParseDecimal(c.Amount)
		hash, err2 := hex.DecodeString(c.Counter)
		if err != nil || err2 != nil || copy(k.hash[:], hash) != len(hash) {
			return &sdk.Error{Code: sdk.CodeInternal, Op: "give a charge back", Err: errors.Join(err, err2)}
		}
		if k.end <= uint64(tx.now.Unix()) {
			continue
		}
		neg, digits, exp := amount.Parts()
		back, err := exact.FromParts(!neg, digits, exp)
		if err != nil {
			return &sdk.Error{Code: sdk.CodeInternal, Op: "give a charge back", Err: err}
		}
		if again {
			amount, back = back, amount
		}
		if err := tx.uncharge(k, amount); err != nil {
			return unavailable(err)
		}
		tx.journal(undo{counter: k, amount: back})
	}
	return nil
}

// charge keeps the sums that within gave, and says what was added.
func (tx *tx) charge(charges []Charge, sums []exact.Decimal, repeat bool) (added []charged) {
	for i := range charges {
		c := &charges[i]
		if c.spared(repeat) {
			continue
		}
		k := c.at(tx.now)
		if len(tx.st.counters) >= maxCounters {
			clear(tx.st.counters)
		}
		tx.st.counters[k] = sums[i]
		if amount, err := exact.ParseDecimal(c.Amount); err == nil { // within has read it
			tx.journal(undo{counter: k, amount: amount})
			added = append(added, charged{k.end, hex.EncodeToString(k.hash[:]), c.Amount})
		}
		tx.setFresh(k.row(), sums[i].Append(nil))
	}
	return added
}

// dropCounters deletes the windows that are over, once a minute.
func (tx *tx) dropCounters() {
	now := uint64(tx.now.Unix())
	if now/60 == tx.st.dropped {
		return
	}
	tx.st.dropped = now / 60
	from, to := []byte{prefixCounter}, binary.BigEndian.AppendUint64([]byte{prefixCounter}, now)
	if tx.anything(from, to) {
		tx.keep(tx.batch.DeleteRange(from, to, nil))
	}
	for k := range tx.st.counters {
		if k.end < now {
			delete(tx.st.counters, k)
		}
	}
}

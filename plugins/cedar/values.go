package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/yett-dev/yett/sdk/exact"
)

// values turns JSON into Cedar's values. Cedar has whole numbers of 64 bits and decimals with four places, and no null:
// what fits neither is refused, never rounded.
type values struct{ omitNulls bool }

var (
	errNull     = errors.New("null, which Cedar has not; nulls: omit leaves such members out")
	errFraction = errors.New("a number that is not whole; decimals can list it")
	errLong     = errors.New("a whole number beyond 64 bits")
	errDecimal  = errors.New("a number that does not fit a decimal of four places")
)

// of is the value of v. at says where decimals are wanted from here on.
func (s values) of(v exact.Value, at *places) (types.Value, error) {
	switch v.Kind() {
	case exact.Bool:
		return types.Boolean(v.Bool()), nil
	case exact.String:
		return types.String(v.Str()), nil
	case exact.Number:
		if at != nil && at.here {
			return decimal(v.Decimal())
		}
		return long(v.Decimal())
	case exact.Array:
		list := make([]types.Value, 0, v.Len())
		i := 0
		for e := range v.Elements() {
			var below *places
			if at != nil {
				below = at.at(strconv.Itoa(i))
			}
			t, err := s.of(e, below)
			if err != nil {
				return nil, fmt.Errorf("element %d: %w", i, err)
			}
			list = append(list, t)
			i++
		}
		return types.NewSet(list...), nil
	case exact.Object:
		return s.record(v, at)
	case exact.Null:
		return nil, errNull
	}
	return nil, errors.New("a value of an unknown kind")
}

func (s values) record(v exact.Value, at *places) (types.Record, error) {
	m := make(types.RecordMap, v.Len())
	for name, e := range v.Members() {
		if e.Kind() == exact.Null && s.omitNulls {
			continue
		}
		t, err := s.of(e, at.at(name))
		if err != nil {
			return types.Record{}, fmt.Errorf("%.64q: %w", name, err)
		}
		m[types.String(name)] = t
	}
	return types.NewRecord(m), nil
}

func long(d exact.Decimal) (types.Value, error) {
	if n, ok := d.Int64(); ok {
		return types.Long(n), nil
	}
	if _, digits, exp := d.Parts(); len(digits) > exp {
		return nil, errFraction
	}
	return nil, errLong
}

const decimalPlaces = 4

func decimal(d exact.Decimal) (types.Value, error) {
	neg, digits, exp := d.Parts()
	shifted, err := exact.FromParts(neg, digits, exp+decimalPlaces)
	if err != nil {
		return nil, errDecimal
	}
	n, ok := shifted.Int64()
	if !ok {
		return nil, errDecimal
	}
	out, err := types.NewDecimal(n, -decimalPlaces)
	if err != nil {
		return nil, errDecimal
	}
	return out, nil
}

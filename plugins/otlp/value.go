package main

import (
	"math"
	"strconv"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"

	"github.com/yett-dev/yett/sdk/exact"
)

// maxDepth is how deeply a structured body nests. Each level of JSON is up to three of protobuf, and the decoders of
// other languages refuse more than 100.
const maxDepth = 24

// anyValue turns JSON into OTLP's value. Nothing is lost: a number that neither int64 nor float64 holds exactly becomes
// a string of its digits, and what nests deeper than maxDepth becomes a string of its JSON.
func anyValue(v exact.Value, depth int) *commonpb.AnyValue {
	switch v.Kind() {
	case exact.Bool:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: v.Bool()}}
	case exact.Number:
		return number(v.Raw())
	case exact.String:
		return text(v.Str())
	case exact.Array:
		if depth >= maxDepth {
			return text(v.Raw())
		}
		list := &commonpb.ArrayValue{Values: make([]*commonpb.AnyValue, 0, v.Len())}
		for e := range v.Elements() {
			list.Values = append(list.Values, anyValue(e, depth+1))
		}
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: list}}
	case exact.Object:
		if depth >= maxDepth {
			return text(v.Raw())
		}
		list := &commonpb.KeyValueList{Values: make([]*commonpb.KeyValue, 0, v.Len())}
		for name, m := range v.Members() {
			list.Values = append(list.Values, &commonpb.KeyValue{Key: name, Value: anyValue(m, depth+1)})
		}
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_KvlistValue{KvlistValue: list}}
	default:
		return &commonpb.AnyValue{} // null: OTLP's empty value
	}
}

// number keeps the value as it was written: whole numbers as int64, others as float64 if that says the same in decimal,
// and what fits neither as a string of its digits.
func number(raw string) *commonpb.AnyValue {
	if isWhole(raw) && raw != "-0" {
		if n, err := strconv.ParseInt(raw, 10, 64); err == nil {
			return integer(n)
		}
		return text(raw)
	}
	if f, err := strconv.ParseFloat(raw, 64); err == nil && sameDecimal(raw, f) {
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: f}}
	}
	return text(raw)
}

// sameDecimal says whether the shortest decimal of f, which is what its readers print, is the number raw.
func sameDecimal(raw string, f float64) bool {
	want, err := exact.ParseDecimal(raw)
	if err != nil {
		return false
	}
	got, err := exact.ParseDecimal(strconv.FormatFloat(f, 'e', -1, 64))
	return err == nil && got.Cmp(want) == 0
}

// isWhole is true for digits with or without a sign.
func isWhole(raw string) bool {
	for i := range len(raw) {
		if c := raw[i]; (c < '0' || c > '9') && (i > 0 || c != '-') {
			return false
		}
	}
	return true
}

func text(s string) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: s}}
}

func integer(n int64) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: n}}
}

func boolean(b bool) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: b}}
}

// count is a number that is not negative: an integer if int64 holds it, else a string of its digits.
func count(n uint64) *commonpb.AnyValue {
	if n > math.MaxInt64 {
		return text(strconv.FormatUint(n, 10))
	}
	return integer(int64(n))
}

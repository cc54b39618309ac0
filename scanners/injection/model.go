package main

import _ "embed"

// The model is a linear one over hashed features of a segment: its words, pairs of neighbours, concepts and
// pairs of
// concepts. Weights are bytes, sums are integers: every machine gives the same score. model_test.go trains it.

//go:embed model.bin
var weights string

const (
	modelBits = 15
	modelSize = 1 << modelBits
	// weightUnit is what a weight of 1 stands for in the file.
	weightUnit = 24
	pairReach  = 6 // words between two concepts of a pair
)

// spread mixes a hash and gives its feature.
func spread(h uint32) uint16 {
	h ^= h >> 15
	h *= 0x2c1b3c6d
	h ^= h >> 12
	return uint16(h >> (32 - modelBits))
}

// features appends the indexes of the segment's features to list.
func (s *segment) features(list []uint16) []uint16 {
	before := uint32(0x5eed)
	lastConcept, lastAt := uint32(0), -100
	for i := range s.tokens {
		t := &s.tokens[i]
		list = append(list, spread(t.hash*3), spread(before*0x9e3779b1^t.hash))
		before = t.hash
		if t.concepts == 0 {
			continue
		}
		list = append(list, spread(t.concepts*0x85ebca6b^0xc0))
		if i-lastAt <= pairReach {
			list = append(list, spread(lastConcept*0xc2b2ae35^t.concepts*0x27d4eb2f^0xcc))
		}
		lastConcept, lastAt = t.concepts, i
	}
	if s.mixed > 0 {
		list = append(list, spread(0x11))
	}
	if s.leet > 1 {
		list = append(list, spread(0x22))
	}
	return list
}

// score weighs the segment; above 0 it looks more like an injection than not.
func (s *scan) score(g *segment) int {
	s.list = g.features(s.list[:0])
	sum := 0
	for _, f := range s.list {
		sum += int(int8(weights[f]))
	}
	return sum*normal(len(s.list))>>8 + int(int8(weights[modelSize]))*modelBias
}

const modelBias = 8

// normal is what the sum of so many features is divided by, as a factor of 256ths: long segments have more of
// them, and
// no more to say.
func normal(n int) int {
	root := 4
	for root*root < n {
		root++
	}
	return 256 * 4 / root
}

const (
	modelThreshold = weightUnit * 3 / 4 // a logit of three quarters
	modelUnit      = 1
)

func confidenceOf(score int) float32 { return min(0.6, 0.3+float32(score)/1024) }

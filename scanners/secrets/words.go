package main

// Whether letters follow each other as they do in words. Names, sentences and paths say yes; what a program has drawn
// at random says no. The table is made of the words of Go's standard library: how often a letter follows another, as
// 2.5 times the bits that it takes to say so, each a letter from a (0) to z (25).

const letterPairs = "" +
	"sljjspnznxqiljwmyikhpltoryjonojopxiovhnrlprjjojrpwosismqiqrjmzkllqgptlninowwszkonifpsthtznmplpolkrlpnqqy" +
	"lrkionnurzwlmitnphiktoqltwkrmmkhqvgzzjmnjmykknlurtpymqlpgpomjzxmqkhmujjmmrrvwugrrnfrssiztmoripxknllvpyru" +
	"npklmnlzwxxllfjnynkjzmyrznhunmhpsumzrqmminzsgsiuqtzzlroneolriztnmmpotshoprptrzjrrlgqqrhztiurirsrmmopqvkt" +
	"gnqphtuuiztpmrhhxslpksvvuzktkiinhulxppqplqvsihootzuwookltnoypzqlkgnkzhllljntzzirmnhrrpmzqklujmvhikmusttz" +
	"rlqksqsprzzphrurnknqdpnqqnirnmfqpvizpnloiqumkloqruozlplohsrkizqmpsmmqnkgkuprmviroqgptlgzxnqtknuiknnusrmu" +
	"mjmommowlzzilgrltkjizusqzvjommgmrqkzxolspfooknppmrzrhopmioslizuojljpqjjrostszrlmkmkluslzzomrmhsokhokomrz" +
	"rrnrmrvxlzsohipfzphlzmrrrojpmqctytjyzrstmuzprvqpokqn"

// pairCost adds up the table over the pairs of letters in v that stand inside one word. A word ends at what is no
// letter and where lower case turns to upper.
func pairCost(v []byte) (cost, pairs int) {
	for i := 1; i < len(v); i++ {
		a, b := v[i-1], v[i]
		if !isAlpha(a) || !isAlpha(b) || isLower(a) && isUpper(b) {
			continue
		}
		cost += int(letterPairs[int(a|0x20-'a')*26+int(b|0x20-'a')] - 'a')
		pairs++
	}
	return cost, pairs
}

// gibberish tells whether the letters of v are in no order that a language has. The fewer there are, the stranger they
// must be: of words of Go's and Python's sources with eight letters one in a hundred is taken for gibberish, of random
// ones three in four are found.
func gibberish(v []byte) bool {
	cost, pairs := pairCost(v)
	return pairs >= 3 && cost*10 >= pairs*118+110
}

// readable counts the bytes of v that belong to words: runs of four letters or more in an order that languages have.
func readable(v []byte) (n int) {
	for i := 0; i < len(v); {
		if !isAlpha(v[i]) {
			i++
			continue
		}
		j := i + 1
		for j < len(v) && isAlpha(v[j]) && !(isLower(v[j-1]) && isUpper(v[j])) {
			j++
		}
		if cost, pairs := pairCost(v[i:j]); pairs >= 3 && cost*10 <= pairs*105 {
			n += j - i
		}
		i = j
	}
	return n
}

// worded tells whether words make up half of v or more: then a person has written it.
func worded(v []byte) bool { return readable(v)*2 >= len(v) }

// wordSet finds whether one of many words stands in a text, in one pass over it.
type wordSet struct{ byFirst [256][]string }

func newWordSet(words ...string) *wordSet {
	s := new(wordSet)
	for _, w := range words {
		s.byFirst[w[0]] = append(s.byFirst[w[0]], w)
	}
	return s
}

// in tells whether one of the words, which are in lower case, stands in v, whatever its case.
func (s *wordSet) in(v []byte) bool {
	for i, c := range v {
		for _, w := range s.byFirst[lower(c)] {
			if len(v)-i >= len(w) && foldEqual(v[i:i+len(w)], w) {
				return true
			}
		}
	}
	return false
}

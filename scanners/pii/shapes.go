package main

// Shapes: a number as it is written, digits as 9 and letters as A, or both as x. shapes maps each written form to its
// rules.
var shapes = makeShapes()

// cardRule stands for the rules of payment cards among those of a shape.
const cardRule = 255

const maxShape = 40

func makeShapes() map[string][]uint8 {
	table := map[string][]uint8{}
	for i, r := range numberRules {
		for _, form := range expandShapes(r.shapes) {
			table[form] = append(table[form], uint8(i))
		}
	}
	for n := 12; n <= 19; n++ {
		cardForms["9999999999999999999"[:n]] = true
	}
	for form := range cardForms {
		table[form] = append(table[form], cardRule)
	}
	return table
}

// walk is the trie of all shapes, so that a text which is none is left at its first wrong byte.
var walk = makeTrie(shapes)

// Classes of bytes in shapes.
const (
	classNone = iota
	classDigit
	classLetter
	classEither
	classSeparators
	shapeClasses = classSeparators + len(shapeSeparators)
)

const shapeSeparators = " -./:+()"

var shapeClass = func() (table [256]uint8) {
	for c := range 256 {
		if isDigit(byte(c)) || c == '9' {
			table[c] = classDigit
		} else if isAlpha(byte(c)) {
			table[c] = classLetter
		}
	}
	for i := range len(shapeSeparators) {
		table[shapeSeparators[i]] = uint8(classSeparators + i)
	}
	return table
}()

type trie struct {
	next  []uint16 // state*shapeClasses + class → state; 0 is the root, and leads nowhere back
	rules [][]uint8
}

const noState = 0xffff

func makeTrie(table map[string][]uint8) *trie {
	t := &trie{}
	add := func() uint16 {
		for range shapeClasses {
			t.next = append(t.next, noState)
		}
		t.rules = append(t.rules, nil)
		return uint16(len(t.rules) - 1)
	}
	root := add()
	for form, rules := range table {
		state := root
		for _, c := range []byte(form) {
			class := shapeClass[c]
			if c == 'x' {
				class = classEither
			}
			at := int(state)*shapeClasses + int(class)
			if t.next[at] == noState {
				s := add()
				t.next[at] = s
			}
			state = t.next[at]
		}
		t.rules[state] = rules
	}
	return t
}

func (t *trie) step(state uint16, class uint8) uint16 {
	if state == noState || class == classNone {
		return noState
	}
	return t.next[int(state)*shapeClasses+int(class)]
}

// expandShapes makes every written form of a rule's shapes.
func expandShapes(list string) (forms []string) {
	for len(list) > 0 {
		one := list
		list = ""
		for i := range len(one) {
			if one[i] == '|' {
				one, list = one[:i], one[i+1:]
				break
			}
		}
		varied := false
		for i := range len(one) {
			varied = varied || one[i] == '~'
		}
		if !varied {
			forms = append(forms, expandShape(one, "")...)
			continue
		}
		for _, sep := range []string{"", " ", "-"} {
			forms = append(forms, expandShape(one, sep)...)
		}
	}
	return forms
}

func expandShape(one, sep string) []string {
	onlyX := true
	for i := range len(one) {
		onlyX = onlyX && one[i] != 'd' && one[i] != 'a'
	}
	forms := []string{""}
	extend := func(with ...string) {
		var longer []string
		for _, f := range forms {
			for _, w := range with {
				longer = append(longer, f+w)
			}
		}
		forms = longer
	}
	for i := 0; i < len(one); {
		c := one[i]
		i++
		if c == '~' {
			extend(sep)
			continue
		}
		if c != 'd' && c != 'a' && c != 'x' {
			extend(string(c))
			continue
		}
		n := 0
		for i < len(one) && isDigit(one[i]) {
			n = n*10 + int(one[i]-'0')
			i++
		}
		for range n {
			switch {
			case c == 'd':
				extend("9")
			case c == 'a':
				extend("A")
			case onlyX:
				extend("x")
			default:
				extend("9", "A")
			}
		}
	}
	return forms
}

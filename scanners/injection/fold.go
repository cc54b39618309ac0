package main

// Folding brings letters that look or sound alike to one form before anything is compared: case, accents, width,
// mathematical and enclosed alphabets, and, in words that mix scripts, letters of one script that pass for
// Latin ones.

// latinFold gives, from U+00C0 to U+017F, the plain letter of each; a space stands for what is no letter.
const latinFold = "aaaaaaaceeeeiiiidnooooo ouuuuytsaaaaaaaceeeeiiiidnooooo ouuuuytyaaaaaaccccccccdd" +
	"ddeeeeeeeeeegggggggghhhhiiiiiiiiiiiijjkkkllllllllllnnnnnnnnnoooooooorrrrrrssssss" +
	"ssttttttuuuuuuuuuuuuwwyyyzzzzzzs"

// lookalikes pairs letters of other scripts with the Latin one that they are taken for.
const lookalikes = "аaвbсcԁdеeғfɡgһhіiїiјjкkӏlмmոnоoрpԛqгrѕsтtυuѵvԝwхxуyзzαaβbεeηnιiκkνvοoρpτtχxγyωw" +
	"σoδdθoλlμuξeπnɑaɩiɪiʟlɴnʀrʏyᴀaᴄcᴅdᴇeᴊjᴋkᴍmᴏoᴘpᴛtᴜuᴠvᴡwᴢzɢgʜhʙbꜰfꜱsւuհhցgօoѡwьbпn" +
	"лnиuшwцuбb"

// usualLookalikes is how many bytes of lookalikes are common enough to be looked for.
const usualLookalikes = 112

var lookalike = func() map[rune]byte {
	m := map[rune]byte{}
	var from rune
	for _, r := range lookalikes {
		if r < 0x80 {
			m[from] = byte(r)
			continue
		}
		from = r
	}
	return m
}()

// foldRune gives the folded letter: ASCII, or another rune in lower case.
func foldRune(r rune) rune {
	switch {
	case r < 0x80:
		if 'A' <= r && r <= 'Z' {
			r |= 0x20
		}
		return r
	case r < 0xc0:
		return r
	case r < 0x180:
		return rune(latinFold[r-0xc0])
	case r == 0x1a0 || r == 0x1a1:
		return 'o'
	case r == 0x1af || r == 0x1b0:
		return 'u'
	case r >= 0x386 && r <= 0x3ab:
		return foldGreek(r)
	case r >= 0x3ac && r <= 0x3ce:
		return foldGreek(r)
	case r >= 0x400 && r <= 0x40f:
		r += 0x50
	case r >= 0x410 && r <= 0x42f:
		r += 0x20
	case r >= 0x460 && r <= 0x481 || r >= 0x48a && r <= 0x52f:
		return r | 1
	case r >= 0x531 && r <= 0x556:
		return r + 0x30
	case r >= 0x622 && r <= 0x627 && r != 0x624 && r != 0x626:
		return 0x627 // forms of alef
	case r == 0x649:
		return 0x64a
	case r == 0x629:
		return 0x647
	case r >= 0x1e00 && r <= 0x1eff:
		return foldVietnamese(r)
	case r >= 0x24b6 && r <= 0x24e9:
		return 'a' + (r-0x24b6)%26
	case r >= 0x1f130 && r <= 0x1f189:
		return foldEnclosed(r)
	case r >= 0x1f1e6 && r <= 0x1f1ff:
		return 'a' + r - 0x1f1e6
	case r >= 0xff10 && r <= 0xff5a:
		return foldRune(r - 0xfee0)
	case r >= 0x1d400 && r <= 0x1d6a3:
		return 'a' + (r-0x1d400)%26
	case r >= 0x1d7ce && r <= 0x1d7ff:
		return '0' + (r-0x1d7ce)%10
	}
	if r == 0x451 {
		return 0x435
	}
	return r
}

func foldEnclosed(r rune) rune {
	switch {
	case r <= 0x1f149:
		return 'a' + r - 0x1f130
	case r >= 0x1f150 && r <= 0x1f169:
		return 'a' + r - 0x1f150
	case r >= 0x1f170:
		return 'a' + r - 0x1f170
	}
	return r
}

const greekAccents = "άαέεήηίιόούυώωϊιϋυςσ"

func foldGreek(r rune) rune {
	if r >= 0x391 && r <= 0x3ab {
		r += 0x20
	}
	switch r {
	case 0x386:
		return 'α'
	case 0x388:
		return 'ε'
	case 0x389:
		return 'η'
	case 0x38a:
		return 'ι'
	}
	var from rune
	for i, g := range greekAccents {
		if i%4 == 0 {
			from = g
		} else if from == r {
			return g
		}
	}
	return r
}

// foldVietnamese folds Latin Extended Additional; its letters come in runs of one base letter.
func foldVietnamese(r rune) rune {
	const runs = "abcdefghijklmnoprstuvwxyz"
	ends := [...]rune{0x1e02, 0x1e08, 0x1e0a, 0x1e14, 0x1e1e, 0x1e20, 0x1e22, 0x1e2c, 0x1e30, 0x1e30, 0x1e36,
		0x1e3e,
		0x1e44, 0x1e4c, 0x1e54, 0x1e58, 0x1e60, 0x1e6a, 0x1e72, 0x1e7c, 0x1e80, 0x1e8a, 0x1e8e, 0x1e90, 0x1e96}
	for i, end := range ends {
		if r < end {
			return rune(runs[i])
		}
	}
	switch {
	case r >= 0x1ea0 && r < 0x1eb8:
		return 'a'
	case r >= 0x1eb8 && r < 0x1ec8:
		return 'e'
	case r >= 0x1ec8 && r < 0x1ecc:
		return 'i'
	case r >= 0x1ecc && r < 0x1ee4:
		return 'o'
	case r >= 0x1ee4 && r < 0x1ef2:
		return 'u'
	case r >= 0x1ef2 && r < 0x1efa:
		return 'y'
	}
	return r
}

// invisible tells whether a rune shows nothing and may be dropped from a word.
func invisible(r rune) bool {
	switch {
	case r == 0xad, r == 0x34f, r == 0x61c, r == 0x180e, r == 0xfeff, r == 0x115f, r == 0x1160, r == 0x3164:
		return true
	case r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f, r >= 0xfe00 &&
		r <= 0xfe0f,
		r >= 0x300 && r <= 0x36f, r >= 0xe0000 && r <= 0xe0fff, r >= 0x64b && r <= 0x65f:
		return true
	}
	return false
}

// wordRune tells whether a rune is part of words.
func wordRune(r rune) bool {
	switch {
	case r < 0x80:
		return isWord(byte(r))
	case r < 0xc0, r == 0xd7, r == 0xf7:
		return false
	case r >= 0x2000 && r < 0x2c00:
		return r >= 0x24b6 && r <= 0x24e9
	case r >= 0x3000 && r < 0x3040:
		return false
	case r >= 0xfe10 && r < 0xff10, r >= 0xff1a && r < 0xff21, r >= 0xff3b && r < 0xff41, r >= 0xff5b && r < 0xff66:
		return false
	case r == 0x964, r == 0x965, r == 0x60c, r == 0x61b, r == 0x61f, r == 0x37e, r == 0x387, r == 0x30fb:
		return false
	case r >= 0x1f000 && r < 0x20000:
		return r >= 0x1f130 && r <= 0x1f189 || r >= 0x1f1e6 && r <= 0x1f1ff
	case r >= 0xe000 && r < 0xf900, r == 0xfffd:
		return false
	}
	return true
}

// unspaced tells whether the script of a rune writes no spaces between words.
func unspaced(r rune) bool {
	return r >= 0x2e80 && r < 0xa4d0 && r != 0x3164 || r >= 0xf900 && r < 0xfb00 || r >= 0x20000 && r < 0x32000 ||
		r >= 0xe00 && r < 0xf00 || r >= 0x1780 && r < 0x1800
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isAlpha(c byte) bool { return isLower(c | 0x20) }
func isWord(c byte) bool  { return isAlpha(c) || isDigit(c) }

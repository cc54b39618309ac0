package main

import "github.com/yett-dev/yett/sdk/scanner"

const base58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

var base58Value = func() (table [256]int8) {
	for i := range table {
		table[i] = -1
	}
	for i := range len(base58) {
		table[base58[i]] = int8(i)
	}
	return table
}()

// crypto looks for the address of an account in a long run of letters and digits.
func (s *scan) crypto(h scanner.Hit) {
	if h.Start < s.cryptoUpTo {
		return
	}
	s.cryptoUpTo = h.End
	for i := h.Start; i < h.End; {
		if !isWord(s.t[i]) {
			i++
			continue
		}
		end := i
		for end < h.End && isWord(s.t[end]) {
			end++
		}
		if n := end - i; n >= 26 && n <= 90 && at(s.t, i-1) != '_' && at(s.t, end) != '_' {
			s.account(i, end)
		}
		i = end
	}
}

func (s *scan) account(start, end int) {
	v := s.t[start:end]
	switch {
	case len(v) == 42 && v[0] == '0' && v[1] == 'x':
		if confidence := ethereum(v[2:]); confidence > 0 {
			if confidence < 0.9 && s.around(start, end)&ctxCrypto == 0 {
				s.addAs("CRYPTO", start, end, 0.4, low, scanner.Redact)
				return
			}
			s.add("CRYPTO", start, end, confidence)
		}
	case hasPrefix(v, 0, "bc1") || hasPrefix(v, 0, "tb1") || hasPrefix(v, 0, "ltc1"):
		if bech32(v) {
			s.add("CRYPTO", start, end, 0.97)
		}
	case len(v) <= 36 && base58Check(v):
		s.add("CRYPTO", start, end, 0.97)
	}
}

// base58Check decodes 25 bytes and compares the last four with a double SHA-256 of the rest. The first characters are
// those of Bitcoin, Litecoin, Dogecoin, Dash, Zcash and Tron.
func base58Check(v []byte) bool {
	switch v[0] {
	case '1', '3', 'L', 'M', 'D', 'A', '9', 'X', 't', 'T', '2', 'm', 'n':
	default:
		return false
	}
	var out [26]byte
	for _, c := range v {
		carry := int(base58Value[c])
		if carry < 0 {
			return false
		}
		for i := len(out) - 1; i >= 0; i-- {
			carry += int(out[i]) * 58
			out[i] = byte(carry)
			carry >>= 8
		}
		if carry > 0 {
			return false
		}
	}
	raw := out[1:]
	if out[0] != 0 {
		raw = out[:]
	}
	n := len(raw) - 4
	first := sha256(raw[:n])
	sum := sha256(first[:])
	return string(sum[:4]) == string(raw[n:])
}

// bech32 checks an address of BIP 173 or 350.
func bech32(v []byte) bool {
	const charset = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
	sep := 2
	if hasPrefix(v, 0, "ltc1") {
		sep = 3
	}
	small, large := false, false
	check := uint32(1)
	step := func(value byte) {
		top := check >> 25
		check = check&0x1ffffff<<5 ^ uint32(value)
		for i, g := range [5]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
			if top>>i&1 == 1 {
				check ^= g
			}
		}
	}
	for _, c := range v[:sep] {
		step(lower(c) >> 5)
	}
	step(0)
	for _, c := range v[:sep] {
		step(lower(c) & 31)
	}
	for i, c := range v {
		small, large = small || isLower(c), large || isUpper(c)
		if i <= sep {
			continue
		}
		value := -1
		for k := range len(charset) {
			if charset[k] == lower(c) {
				value = k
			}
		}
		if value < 0 {
			return false
		}
		step(byte(value))
	}
	return !(small && large) && (check == 1 || check == 0x2bc830a3)
}

// ethereum gives the confidence that forty characters are an address. Mixed case carries a checksum (EIP-55).
func ethereum(v []byte) float32 {
	small, large := false, false
	var low [40]byte
	for i, c := range v {
		if !isHex(c) {
			return 0
		}
		small, large = small || isLower(c), large || isUpper(c)
		low[i] = lower(c)
	}
	var seen [16]bool
	kinds := 0
	for _, c := range low {
		n := c & 15
		if isAlpha(c) {
			n += 9
		}
		if !seen[n] {
			seen[n] = true
			kinds++
		}
	}
	if kinds < 9 {
		return 0 // a constant
	}
	if !small || !large {
		return 0.6
	}
	sum := keccak256(low[:])
	for i, c := range v {
		nibble := sum[i/2] >> 4
		if i%2 == 1 {
			nibble = sum[i/2] & 15
		}
		if isAlpha(c) && isUpper(c) != (nibble >= 8) {
			return 0
		}
	}
	return 0.97
}

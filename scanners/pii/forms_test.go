package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk"
)

// writtenForms are the ways in which authorities, forms and invoices write numbers that carry a check of their own.
// The shape draws a number that passes; in its forms # stands for the next sign, _ for the same in small letters, and
// everything else for itself.
var writtenForms = []struct{ kind, shape, word, forms string }{
	{"ABA_ROUTING_NUMBER", "d9", "routing number", "#########|####-####-#"},
	{"AE_EMIRATES_ID", "784d12", "Emirates ID", "###############|###-####-#######-#|### #### ####### #"},
	{"AR_CUIT", "20d9", "CUIT", "###########|##-########-#|## ######## #"},
	{"AT_SVNR", "d10", "SVNR", "##########|#### ######|####-######|#### ## ## ##"},
	{"AU_ABN", "d11", "ABN", "###########|## ### ### ###|##-###-###-###"},
	{"AU_ACN", "d9", "ACN", "#########|### ### ###|###-###-###"},
	{"AU_MEDICARE", "d10", "Medicare number", "##########|#### ##### #|####-#####-#"},
	{"AU_MEDICARE", "d11", "Medicare number",
		"###########|#### ##### # #|#### ##### #/#|####-#####-#-#|#### ##### #-#"},
	{"AU_TFN", "d9", "TFN", "#########|### ### ###|###-###-###"},
	{"AU_TFN", "d8", "TFN", "########|## ### ###"},
	{"BALTIC_PERSONAL_CODE", "d11", "isikukood", "###########"},
	{"BE_NATIONAL_NUMBER", "d11", "rijksregisternummer",
		"###########|##.##.##-###.##|##.##.## ###.##|##.##.##-###-##|######-###-##|###### ### ##|" +
			"######-###.##|## ## ## ### ##"},
	{"BG_EGN", "d10", "EGN", "##########"},
	{"BR_CNPJ", "d14", "CNPJ", "##############|##.###.###/####-##|########/####-##|## ### ### #### ##"},
	{"BR_CNPJ", "x12d2", "CNPJ", "##############|##.###.###/####-##|########/####-##"},
	{"BR_CPF", "d11", "CPF", "###########|###.###.###-##|#########-##|### ### ### ##|###.###.###.##|###-###-###-##"},
	{"CA_SIN", "d9", "SIN", "#########|### ### ###|###-###-###"},
	{"CH_AHV", "756d10", "AHV", "#############|###.####.####.##|### #### #### ##|###-####-####-##"},
	{"CL_RUT", "d8-d1", "RUT", "########-#|##.###.###-#"},
	{"CL_RUT", "d7-d1", "RUT", "#######-#|#.###.###-#"},
	{"CL_RUT", "d8-a1", "RUT", "########-#|########-_|##.###.###-#|##.###.###-_"},
	{"CN_RESIDENT_ID", "d6^198d1d2d2d4", "identity number", "##################|###### ######## ####"},
	{"CN_RESIDENT_ID", "d6^198d1d2d2d3X", "identity number", "##################|#################_"},
	{"CREDIT_CARD", "4d15", "card", "################|#### #### #### ####|####-####-####-####|####.####.####.####"},
	{"CREDIT_CARD", "51d14", "card", "################|#### #### #### ####|####-####-####-####"},
	{"CREDIT_CARD", "37d13", "card",
		"###############|#### ###### #####|####-######-#####|####.######.#####|#### #### #### ###|" +
			"####-####-####-###"},
	{"CREDIT_CARD", "36d12", "card", "##############|#### ###### ####|####-######-####|#### #### #### ##"},
	{"CREDIT_CARD", "62d17", "card", "###################|#### #### #### #### ###|###### #############"},
	{"CZ_RODNE_CISLO", "d6/d4", "rodné číslo", "######/####|##########|###### ####"},
	{"DE_HEALTH_INSURANCE", "a1d9", "Krankenversicherungsnummer",
		"##########|_#########|# #########|# ### ### ###|#### ### ###"},
	{"DE_ID_CARD", "x8d1", "Personalausweis", "#########|_________"},
	{"DE_LANR", "d9", "LANR", "#########"},
	{"DE_SOCIAL_SECURITY", "d8a1d3", "Rentenversicherungsnummer",
		"############|________####|## ###### # ###|## ###### # ## #|##-######-#-###|## ## ## ## # ###|" +
			"## ##########"},
	{"DE_TAX_ID", "d11", "Steuer-ID", "###########|## ### ### ###|##-###-###-###|### ### ### ##|##.###.###.###"},
	{"DE_VAT_ID", "DEd9", "USt-IdNr.",
		"###########|__#########|## #########|##-#########|## ### ### ###|##-###-###-###|##.###.###.###|" +
			"##### ### ###|#####-###-###|#####.###.###|## ###.###.###|## ###-###-###|## ### ######|" +
			"__ ### ### ###|##.#########"},
	{"DO_CEDULA", "d3-d7-d1", "cédula", "###-#######-#|###########"},
	{"EC_CEDULA", "d10", "cédula", "##########|#########-#"},
	{"ES_CIF", "Ad8", "CIF", "#########|#-########|_########|# ########|#-#######-#"},
	{"ES_NIE", "Xd7a1", "NIE", "#########|_#######_|#-#######-#|# ####### #|#-########|########-#|# ########"},
	{"ES_NIF", "d8a1", "DNI",
		"#########|########_|########-#|########-_|######## #|##.###.###-#|##.###.### #|##.###.####|" +
			"## ### ### #"},
	{"FI_PERSONAL_IDENTITY_CODE", "d6-d3a1", "henkilötunnus", "######-####|######-###_|######+####"},
	{"FI_PERSONAL_IDENTITY_CODE", "d6-d4", "hetu", "######-####|######+####"},
	{"FI_PERSONAL_IDENTITY_CODE", "d6Ad3a1", "hetu", "###########|______#___#"},
	{"FI_PERSONAL_IDENTITY_CODE", "d6Yd4", "hetu", "###########|______#####"},
	{"FR_NIR", "1d14", "sécurité sociale",
		"###############|############# ##|# ## ## ## ### ### ##|#.##.##.##.###.###.##|" +
			"#-##-##-##-###-###-##"},
	{"GR_AMKA", "d11", "AMKA", "###########"},
	{"HK_ID", "a1d6(d1)", "HKID", "#######(#)|########|####### (#)"},
	{"HR_OIB", "d11", "OIB", "###########"},
	{"IBAN", "DEd20", "IBAN",
		"######################|#### #### #### #### #### ##|####-####-####-####-####-##|" +
			"__####################|__## #### #### #### #### ##"},
	{"IBAN", "GBd2a4d14", "IBAN", "######################|#### #### #### #### #### ##|________##############"},
	{"IE_PPS", "d7a1", "PPS", "########|#######_|####### #"},
	{"IE_PPS", "d7a2", "PPS", "#########|####### ##"},
	{"IL_ID", "d9", "תעודת", "#########|########-#"},
	{"IN_AADHAAR", "d4 d4 d4", "Aadhaar", "############|#### #### ####|####-####-####|####:####:####"},
	{"IT_FISCAL_CODE", "a6d2Rd2a1d3a1", "codice fiscale", "################|________________|### ### ##### #####"},
	{"IT_VAT_CODE", "d11", "partita IVA", "###########|IT###########|IT ###########|it###########"},
	{"JP_MY_NUMBER", "d12", "マイナンバー", "############|#### #### ####|####-####-####"},
	{"KR_BRN", "d10", "BRN", "##########|###-##-#####|### ## #####"},
	{"MEDICAL_LICENSE", "a2d7", "DEA", "#########|__#######|##-#######|## #######"},
	{"MX_CURP", "a4d6Ha5x1d1", "CURP", "##################|__________________"},
	{"NG_NIN", "d11", "NIN", "###########|#### ### ####|####-###-####|#### #### ###|####-####-###"},
	{"NL_BSN", "d9", "BSN", "#########|####.##.###|#### ## ###|### ### ###|###.###.###|###-###-###"},
	{"NO_FODSELSNUMMER", "d11", "fødselsnummer", "###########|###### #####|######-#####"},
	{"NZ_IRD", "d9", "IRD", "#########|###-###-###|### ### ###"},
	{"NZ_IRD", "d8", "IRD", "########|##-###-###|## ### ###"},
	{"PH_TIN", "d9", "TIN", "#########|###-###-###|### ### ###"},
	{"PH_TIN", "d12", "TIN", "############|###-###-###-###|### ### ### ###"},
	{"PH_TIN", "d3-d3-d3-d5", "TIN", "###-###-###-#####|### ### ### #####"},
	{"PL_NIP", "d10", "NIP", "##########|###-###-##-##|###-##-##-###|### ### ## ##|PL##########|PL ##########"},
	{"PL_PESEL", "d11", "PESEL", "###########"},
	{"PL_REGON", "d14", "REGON", "##############"},
	{"PL_REGON", "d9", "REGON", "#########|### ### ###"},
	{"PT_NIF", "d9", "contribuinte", "#########|### ### ###|PT#########|PT #########"},
	{"RO_CNP", "d13", "CNP", "#############"},
	{"RU_INN", "d12", "инн", "############"},
	{"RU_SNILS", "d3-d3-d3 d2", "снилс", "###-###-### ##|###-###-###-##|### ### ### ##|###########"},
	{"SA_NATIONAL_ID", "1d9", "iqama", "##########"},
	{"SE_ORGANISATIONSNUMMER", "d10", "organisationsnummer", "##########|######-####|###### ####|SE##########01"},
	{"SE_PERSONNUMMER", "d10", "personnummer", "##########|######-####|######+####|###### ####"},
	{"SE_PERSONNUMMER", "19d10", "personnummer", "############|########-####|########+####|######## ####"},
	{"SG_NRIC_FIN", "Sd7a1", "NRIC", "#########|_#######_"},
	{"SG_NRIC_FIN", "Gd7a1", "FIN", "#########|_#######_"},
	{"SG_UEN", "d8a1", "UEN", "#########|########_"},
	{"SG_UEN", "201d6a1", "UEN", "##########|#########_"},
	{"SG_UEN", "Td2LLd4x1", "UEN", "##########|__________"},
	{"TH_TNIN", "d13", "TNIN", "#############|#-####-#####-##-#|# #### ##### ## #"},
	{"TR_NATIONAL_ID", "d11", "TC kimlik", "###########|### ### ### ##"},
	{"TW_ID", "a1d9", "resident", "##########|_#########"},
	{"UK_NHS", "d10", "NHS number", "##########|### ### ####|###-###-####"},
	{"US_NPI", "1d9", "NPI", "##########|#### ### ###|####-###-###"},
	{"YU_JMBG", "d13", "JMBG", "#############"},
	{"ZA_ID_NUMBER", "d13", "RSA ID",
		"#############|###### #### ###|###### #### ## #|###### #### # # #|######-####-###"},
}

// perForm is how many numbers are drawn for each written form.
const perForm = 200

// write fills a written form with the signs of a number.
func write(form, number string) string {
	out := []byte(form)
	v := compact(number)
	for i, c := range out {
		if c != '#' && c != '_' {
			continue
		}
		if out[i] = v[0]; c == '_' {
			out[i] = lower(v[0])
		}
		v = v[1:]
	}
	if len(v) > 0 {
		panic(fmt.Sprintf("the form %s is too short for %s", form, number))
	}
	return string(out)
}

// proved tells whether a number passes the best check that its kind has for its form.
func proved(kind, s string) bool {
	v := compact(s)
	if kind == "CREDIT_CARD" || kind == "IBAN" {
		return accepted(kind, s)
	}
	written, any := form(s)
	best := proof(0)
	ok := false
	for _, i := range slices.Concat(shapes[written], shapes[any]) {
		if i == cardRule || numberRules[i].kind != kind || numberRules[i].proof < best {
			continue
		}
		r := &numberRules[i]
		ok = r.check(v) || ok && r.proof == best
		best = r.proof
	}
	return ok
}

// spoiled changes one sign, the last for which that is possible, so that the check fails.
func spoiled(kind, s string, random *rand.Rand) string {
	b := []byte(s)
	for i := len(b) - 1; i >= 0; i-- {
		was := b[i]
		if !isWord(was) {
			continue
		}
		turn := random.IntN(26)
		for k := range 26 {
			if b[i] = '0' + byte(turn+k)%10; isAlpha(was) {
				b[i] = 'A' + byte(turn+k)%26
			}
			if !proved(kind, string(b)) {
				return string(b)
			}
		}
		b[i] = was
	}
	return ""
}

// drawProved draws a number that passes; "" when none does.
func drawProved(kind, shape string, random *rand.Rand) string {
	for range 200000 {
		if s := draw(shape, random); proved(kind, s) && twoDigits(s) && !(kind == "CREDIT_CARD" && testCard(compact(s))) &&
			!sequential(compact(s)) {
			return s
		}
	}
	return ""
}

// formScore counts numbers of one form, or of all: found alone, found with a word for them, found then as what they
// are; and of those with a wrong check digit what was found above low, as the kind, as a telephone number (which has
// these forms too, and no check) and as something else.
type formScore struct{ numbers, alone, told, kind, wrong, phone, other int }

func (s *formScore) add(b formScore) {
	*s = formScore{s.numbers + b.numbers, s.alone + b.alone, s.told + b.told, s.kind + b.kind, s.wrong + b.wrong,
		s.phone + b.phone, s.other + b.other}
}

func (s *formScore) String() string {
	part := func(n int) float64 { return float64(n) / float64(s.numbers) }
	return fmt.Sprintf("alone %.4f, with a word %.4f (as its kind %.4f); wrong ones %.4f, as telephone %.4f, "+
		"as others %.4f",
		part(s.alone), part(s.told), part(s.kind), part(s.wrong), part(s.phone), part(s.other))
}

func measureForm(t *testing.T, kind, word, written string, numbers, wrongs []string) (s formScore) {
	r := runner(t, "")
	s.numbers = len(numbers)
	for i := range numbers {
		text := write(written, numbers[i])
		if hasSpan(scanFor(t, r, text), 0, len(text)) {
			s.alone++
		}
		before := "The " + word + " is "
		at := len(before)
		found := scanFor(t, r, before+text+" as written.")
		if hasSpan(found, at, at+len(text)) {
			s.told++
		}
		if slices.ContainsFunc(found, func(f sdk.Finding) bool { return f.Kind == "PII_"+kind && f.Start == at }) {
			s.kind++
		}
		wrong := write(written, wrongs[i])
		kinds := map[string]bool{}
		for _, in := range []string{wrong, "We noted " + wrong + " there."} {
			for _, f := range scanFor(t, r, in) {
				if whole := f.End-f.Start >= len(wrong); f.Severity > sdk.Low && (whole || f.Kind != "PII_"+kind) {
					kinds[f.Kind] = true
				}
			}
		}
		switch {
		case kinds["PII_"+kind]:
			s.wrong++
		case kinds["PII_PHONE"]:
			s.phone++
		case len(kinds) > 0:
			s.other++
		}
	}
	return s
}

// Numbers in every written form are found, alone and behind a word for them. With a wrong check digit, and without a
// word, they are not: nothing above low says that they are such numbers.
func TestWrittenForms(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	var sum formScore
	for _, w := range writtenForms {
		var numbers, wrongs []string
		for range perForm {
			number := drawProved(w.kind, w.shape, random)
			if number == "" {
				t.Fatalf("%s: no number of the shape %s passes", w.kind, w.shape)
			}
			wrong := spoiled(w.kind, number, random)
			if wrong == "" {
				t.Fatalf("%s: every number that differs from %s in a sign passes too", w.kind, number)
			}
			numbers, wrongs = append(numbers, number), append(wrongs, wrong)
		}
		for _, written := range strings.Split(w.forms, "|") {
			s := measureForm(t, w.kind, w.word, written, numbers, wrongs)
			if sum.add(s); s.alone*100 < 98*s.numbers || s.told*100 < 98*s.numbers || s.wrong > 0 {
				t.Errorf("%s written %s: %v", w.kind, written, &s)
			}
		}
	}
	t.Logf("%d numbers: %v", sum.numbers, &sum)
	if sum.other*100 > sum.numbers {
		t.Errorf("of %d numbers with a wrong digit %d are found as another kind above low", sum.numbers, sum.other)
	}
}

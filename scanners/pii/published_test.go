package main

import (
	"slices"
	"testing"
)

// published are numbers that authorities and encyclopedias print as examples, written from right to left so that nobody
// takes them for somebody's: without them a wrong checksum would agree with the samples that it has drawn itself.
var published = []struct{ kind, reversed string }{
	{"FI_PERSONAL_IDENTITY_CODE", "T803-250131"}, {"SE_PERSONNUMMER", "4789-822118"},
	{"DE_TAX_ID", "91724759068"}, {"DE_TAX_ID", "61829863074"}, {"DE_VAT_ID", "679596631ED"},
	{"DE_HEALTH_INSURANCE", "510005000A"}, {"DE_SOCIAL_SECURITY", "301C94607051"}, {"CH_AHV", "58.9670.7129.657"},
	{"UK_NHS", "9195 674 349"}, {"FR_NIR", "835208614180552"}, {"NL_BSN", "333222111"},
	{"BE_NATIONAL_NUMBER", "82.330-03.70.58"}, {"BR_CPF", "53-777.444.111"}, {"BR_CNPJ", "18-1000/333.222.11"},
	{"AU_TFN", "287654321"}, {"AU_ABN", "655 357 428 15"}, {"AU_ACN", "616 580 400"},
	{"AU_MEDICARE", "1 07654 3212"}, {"NZ_IRD", "058-190-94"}, {"CA_SIN", "445 296 031"},
	{"IN_AADHAAR", "8507 5014 9999"}, {"CN_RESIDENT_ID", "X20013219491501011"}, {"JP_MY_NUMBER", "810987654321"},
	{"SG_NRIC_FIN", "D7654321S"}, {"SG_NRIC_FIN", "J7654321T"}, {"SG_NRIC_FIN", "N7654321F"},
	{"SG_NRIC_FIN", "X7654321G"}, {"TR_NATIONAL_ID", "64100000001"}, {"PL_PESEL", "95310415044"},
	{"PL_NIP", "81-23-654-321"}, {"PL_REGON", "587654321"}, {"IT_FISCAL_CODE", "S265A01T58ARMSSR"},
	{"ES_NIF", "Z87654321"}, {"ES_NIE", "L7654321X"}, {"PT_NIF", "987654321"}, {"MX_CURP", "40LRRZVM724065GGEH"},
	{"CL_RUT", "5-876.543.21"}, {"ZA_ID_NUMBER", "7809005101008"}, {"TH_TNIN", "1210987654321"},
	{"HK_ID", ")3(654321A"}, {"TW_ID", "987654321A"}, {"ABA_ROUTING_NUMBER", "853000121"},
	{"US_NPI", "3987654321"}, {"US_MBI", "37KM-5ET-4GE1"}, {"HR_OIB", "03515153496"}, {"BG_EGN", "3629613257"},
	{"RO_CNP", "4411221010081"}, {"YU_JMBG", "6000056001010"}, {"RU_SNILS", "59 544-332-211"},
	{"RU_INN", "952237001005"}, {"AR_CUIT", "2-86163550-02"}, {"EC_CEDULA", "5604300171"},
	{"AT_SVNR", "081010 7321"}, {"BALTIC_PERSONAL_CODE", "99203050673"}, {"IE_PPS", "T7654321"},
	{"CZ_RODNE_CISLO", "3615/820637"}, {"CREDIT_CARD", "1881888888882104"}, {"IBAN", "23456789654321TSEW28BG"},
	{"IBAN", "00031023504400407398ED"}, {"KR_BRN", "9566568401"}, {"TR_NATIONAL_ID", "64100000001"},
	{"SG_UEN", "M00229100"}, {"SG_UEN", "C341104791"}, {"SG_UEN", "D1210CF61S"}, {"ID_NIK", "1000548071101713"},
}

func reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// Each published number is accepted, and of those that differ in one digit hardly any.
func TestPublishedNumbers(t *testing.T) {
	for _, p := range published {
		number := reversed(p.reversed)
		if p.kind != "CREDIT_CARD" && !accepted(p.kind, number) {
			t.Errorf("%s: %s is not accepted", p.kind, number)
		}
		if p.kind == "CREDIT_CARD" && !luhn(compact(number)) {
			t.Errorf("%s: %s is not accepted", p.kind, number)
		}
		wrong, all := 0, 0
		for i := range len(number) {
			for d := byte('0'); isDigit(number[i]) && d <= '9'; d++ {
				if d == number[i] {
					continue
				}
				all++
				if proved(p.kind, number[:i]+string(d)+number[i+1:]) {
					wrong++
				}
			}
		}
		switch p.kind {
		case "US_MBI", "ID_NIK": // no check digit
		default:
			if wrong*5 > all {
				t.Errorf("%s: of %d numbers that differ in a digit %d are accepted", p.kind, all, wrong)
			}
		}
	}
}

// Addresses that the standards themselves show are found; with one sign changed they are not.
func TestPublishedAccounts(t *testing.T) {
	r := runner(t, "")
	for _, p := range []string{
		"4t3f8vk7wx5c0yravraz3r5y4gdtxjeq6d805wq1cb",
		"deAeB1fE7E53496633f90A9b9C49E3F3506beAa5x0",
		"aNfviD7vmLS5LTfTPMD2ifeGQ5Pe1Pz1A1",
		"yLNWhRqnrWiynrceivQmNC37ZEpW1t89J3",
	} {
		address := reversed(p)
		if found := scanFor(t, r, "to "+address+" please"); len(found) != 1 || found[0].Kind != "PII_CRYPTO" ||
			found[0].Confidence < 0.9 {
			t.Errorf("%s: %+v", address, found)
		}
		changed := []byte(address)
		if changed[20]++; changed[20]%2 == 0 && !isWord(changed[20]) {
			changed[20] = 'q'
		}
		if found := scanFor(t, r, "to "+string(changed)+" please"); len(found) > 0 && found[0].Confidence > 0.9 {
			t.Errorf("%s: %+v", changed, found)
		}
	}
}

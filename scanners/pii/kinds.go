package main

import (
	"slices"

	"github.com/yett-dev/yett/sdk/scanner"
)

// kind is a kind of finding, without its prefix.
type kind struct {
	name     string
	severity scanner.Severity
	action   scanner.Action
}

const redact = scanner.Redact

// otherKinds are those that numberRules do not name, or whose severity is not that of a national number.
var otherKinds = []kind{
	{"EMAIL", medium, redact}, {"PHONE", medium, redact}, {"CREDIT_CARD", critical, redact}, {"IBAN", high, redact},
	{"SWIFT_BIC", low, redact}, {"IP_ADDRESS", low, redact}, {"MAC_ADDRESS", low, redact}, {"CRYPTO", medium, redact},
	{"DATE_OF_BIRTH", medium, redact}, {"DATE_TIME", info, scanner.Flag}, {"AGE", info, scanner.Flag},
	{"URL", info, scanner.Flag}, {"POSTAL_ADDRESS", medium, redact}, {"ZIP_CODE", low, redact}, {"UK_POSTCODE", low,
		redact},
	{"PERSON", low, redact}, {"US_SSN", critical, redact}, {"BANK_NUMBER", high, redact}, {"MEDICAL_RECORD", high,
		redact},
	{"DE_BSNR", low, redact}, {"DE_LANR", low, redact}, {"US_NPI", low, redact}, {"MEDICAL_LICENSE", low, redact},
	{"DE_HANDELSREGISTER", low, redact}, {"DE_VAT_ID", low, redact}, {"AU_ABN", low, redact}, {"AU_ACN", low, redact},
	{"SE_ORGANISATIONSNUMMER", low, redact}, {"KR_BRN", low, redact}, {"SG_UEN", low, redact}, {"BR_CNPJ", low, redact},
	{"PL_REGON", low, redact}, {"IT_VAT_CODE", low, redact}, {"ES_CIF", low, redact}, {"ABA_ROUTING_NUMBER", low,
		redact},
	{"US_EIN", medium, redact}, {"IMEI", low, redact}, {"UK_VEHICLE_REGISTRATION", low, redact},
	{"TR_LICENSE_PLATE", low, redact}, {"DE_KFZ", low, redact}, {"IN_VEHICLE_REGISTRATION", low, redact},
	{"NG_VEHICLE_REGISTRATION", low, redact},
}

var (
	kinds     = allKinds()
	kindIndex = indexKinds()
	kindNames = nameKinds()
)

func allKinds() []kind {
	list := slices.Clone(otherKinds)
	for _, r := range numberRules {
		if !slices.ContainsFunc(list, func(k kind) bool { return k.name == r.kind }) {
			list = append(list, kind{r.kind, high, redact})
		}
	}
	return list
}

func indexKinds() map[string]int {
	index := map[string]int{}
	for i, k := range kinds {
		index[k.name] = i
	}
	return index
}

func nameKinds() []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = "PII_" + k.name
	}
	return names
}

// kindList is every kind with its severity, by name.
func kindList() []scanner.Kind {
	list := make([]scanner.Kind, 0, len(kinds))
	for i, k := range kinds {
		list = append(list, scanner.Kind{Name: kindNames[i], Severity: k.severity})
	}
	slices.SortFunc(list, func(a, b scanner.Kind) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return list
}

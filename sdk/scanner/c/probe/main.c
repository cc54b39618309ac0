// probe uses all of yett.h, so that the vectors of sdk/testdata/vectors/scanner/sdk.yaml can compare it with the other SDKs.
#include "../yett.h"

static const char *const kinds[] = {"LITERAL", "FOLDED", "OVERLAP", "DIGITS", "HEX", "BASE64", "AT", "WORD"};
static yett_str mode;

static int init(yett_json config) {
    yett_members m;
    for (yett_object(config, &m); yett_next(&m);)
        if (yett_same(m.name, "words") || yett_same(m.name, "lists")) continue;
        else if (!yett_same(m.name, "mode") || !yett_string(m.value, &mode)) return yett_fail(YETT_BAD_CONFIG, "mode", "must be a string");
    return YETT_OK;
}

static char *xs(uint32_t n) {
    char *s = yett_alloc(n);
    memset(s, 'x', n);
    return s;
}

static int scan(yett_in *in, yett_out *out) {
    for (uint32_t i = yett_hits(in); i-- > 0;)
        for (int times = yett_same(mode, "twice") ? 2 : 1; times > 0; times--)
            yett_flag(out, kinds[in->hits[i].trigger < 7 ? in->hits[i].trigger : 7], in->hits[i].start, in->hits[i].end, 0.5f);
    if (yett_same(mode, "status")) return yett_fail(70, "as asked", NULL);
    if (yett_same(mode, "kind")) yett_flag(out, "NONE", 0, 1, 1);
    if (yett_same(mode, "span")) yett_flag(out, "AT", 0, in->n + 1, 1);
    if (yett_same(mode, "empty")) yett_flag(out, "AT", 1, 1, 1);
    if (yett_same(mode, "reversed")) yett_flag(out, "AT", 1, 0, 1);
    if (yett_same(mode, "confidence")) yett_flag(out, "AT", 0, 1, 1.5f);
    if (yett_same(mode, "replacement")) yett_replace(out, "AT", 0, 1, 1, (yett_str){xs(4097), 4097});
    if (yett_same(mode, "annotate")) yett_annotate(out, YETT_STR("{\"hits\":true}"));
    if (yett_same(mode, "annotations")) yett_annotate(out, (yett_str){xs(65538), 65538});
    if (yett_same(mode, "state")) yett_set_state(out, xs(4097), 4097);
    return YETT_OK;
}

static int check(yett_json call, yett_decision *d) {
    yett_json args, say;
    yett_str word = {0};
    d->ttl_ms = 250;
    if (!yett_find_member(call, "args", &args) || !yett_find_member(args, "say", &say)) return YETT_OK;
    if (!yett_string(say, &word)) return yett_fail(YETT_INTERNAL, "say", "must be a string");
    if (yett_same(word, "permit")) *d = (yett_decision){YETT_PERMIT, YETT_STR("YES"), YETT_STR("naïve ✓"), 250};
    if (yett_same(word, "deny")) *d = (yett_decision){YETT_DENY_CALL, YETT_STR("NO"), {0}, 250};
    if (yett_same(word, "defer")) *d = (yett_decision){YETT_DEFER, YETT_STR("MAYBE"), YETT_STR("ask"), 250};
    return yett_same(word, "fail") ? yett_fail(YETT_INTERNAL, "as asked", NULL) : YETT_OK;
}

static const yett_spec spec = {
    .name = "probe",
    .version = "1.0.0",
    .kinds = (const yett_kind[]){{"LITERAL", 0}, {"FOLDED", 0}, {"OVERLAP", 0}, {"DIGITS", 0}, {"HEX", 0}, {"BASE64", 0}, {"AT", 0}, {"WORD", 0}, {0}},
    .triggers = (const yett_trigger[]){{.literal = "Alpha"}, {.literal = "Alpha[7]", .fold = 1}, {.literal = "aa"},
        {.run_of = "digits", .min = 3}, {.run_of = "hex", .min = 4}, {.run_of = "base64", .min = 8}, {.run_of = "at", .min = 1}, {0}},
    .triggers_from = (const yett_triggers_from[]){{.path = "/words", .fold = 1}, {.path = "/lists/exact"}, {0}},
    .config = "{\"type\":\"object\",\"properties\":{\"mode\":{\"type\":\"string\"},\"words\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},\"lists\":{\"type\":\"object\",\"properties\":{\"exact\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}},\"additionalProperties\":false}},\"additionalProperties\":false}",
    .memory_mib = 1,
    .deadline_ms = 5,
    .init = init,
    .scan = scan,
    .check = check,
};
YETT_BOTH(spec)

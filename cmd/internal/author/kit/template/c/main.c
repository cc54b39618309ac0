// __NAME__ is a scanner for Yett: it redacts a code name in what tools put out.
#include "yett.h"

#define WORD "bluebird"

static int scan(yett_in *in, yett_out *out) {
    uint32_t n = yett_hits(in);
    for (uint32_t i = 0; i < n; i++) yett_redact(out, "CODENAME", in->hits[i].start, in->hits[i].end, 1);
    return YETT_OK;
}

static const yett_spec spec = {
    .name = "__NAME__",
    .version = "0.1.0",
    .kinds = (const yett_kind[]){{"CODENAME", YETT_HIGH}, {0}},
    .triggers = (const yett_trigger[]){{.literal = WORD, .fold = 1}, {0}}, // texts without it never get here
    .stream = YETT_STREAM_WINDOW,
    .lookbehind = sizeof(WORD) - 1, // no finding is longer
    .scan = scan,
};
YETT_SCANNER(spec)

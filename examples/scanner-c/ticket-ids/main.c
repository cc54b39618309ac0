// ticket-ids: an example of a scanner in C. It finds ticket codes such as ACME-1234, badge numbers and a code name in what
// a tool gave back, and answers the vectors of sdk/testdata/vectors/scanner like its twins in Go, Rust and AssemblyScript.
#include "../../../sdk/scanner/c/yett.h" // in a project of your own it lies beside this file: "yett.h"

enum { TICKET_MARK, DIGIT_RUN, CODENAME };       // indexes of the triggers
enum { MAX_DIGITS = 12, MAX_IGNORED = 64 };      // of a ticket's number; tickets that the operator lists

static uint32_t min_digits = 4;
static int severity = YETT_MEDIUM, badges = 1;
static float confidence = 0.5f;
static yett_str ignored[MAX_IGNORED];
static uint32_t ignored_n;

static int read_ignored(yett_json value) {
    yett_members list;
    if (!yett_elements(value, &list)) return 0;
    ignored_n = 0;
    while (yett_next(&list)) {
        yett_str s;
        if (ignored_n == MAX_IGNORED || !yett_string(list.value, &s) || s.n < 5 || memcmp(s.at, "ACME-", 5) != 0) return 0;
        ignored[ignored_n++] = s;
    }
    return 1;
}

static int configure(yett_json config) {
    static const char *const severities[] = {"info", "low", "medium", "high", "critical"};
    yett_members m;
    for (yett_object(config, &m); yett_next(&m);) {
        double d;
        yett_str s;
        if (yett_same(m.name, "min_digits")) {
            if (!yett_number(m.value, &d) || d < 1 || d > 9 || d != (double)(uint32_t)d)
                return yett_fail(YETT_BAD_CONFIG, "min_digits", "must be an integer of 1–9");
            min_digits = (uint32_t)d;
        } else if (yett_same(m.name, "severity")) {
            severity = 5;
            if (yett_string(m.value, &s))
                for (severity = 0; severity < 5 && !yett_same(s, severities[severity]);) severity++;
            if (severity == 5) return yett_fail(YETT_BAD_CONFIG, "severity", "must be info, low, medium, high or critical");
        } else if (yett_same(m.name, "badges")) {
            if (!yett_bool(m.value, &badges)) return yett_fail(YETT_BAD_CONFIG, "badges", "must be true or false");
        } else if (yett_same(m.name, "confidence")) {
            if (!yett_number(m.value, &d) || d < 0 || d > 1) return yett_fail(YETT_BAD_CONFIG, "confidence", "must be a number of 0–1");
            confidence = (float)d;
        } else if (yett_same(m.name, "ignore")) {
            if (!read_ignored(m.value))
                return yett_fail(YETT_BAD_CONFIG, "ignore", "must be an array of at most 64 tickets that begin with ACME-");
        } else {
            return yett_fail(YETT_BAD_CONFIG, "unknown key", NULL);
        }
    }
    return YETT_OK;
}

static void ticket(const yett_in *in, yett_out *out, const yett_hit *h) {
    uint32_t end = h->end;
    while (end < in->n && in->text[end] >= '0' && in->text[end] <= '9') end++;
    if (end - h->end < min_digits || end - h->end > MAX_DIGITS) return;
    for (uint32_t i = 0; i < ignored_n; i++)
        if (ignored[i].n == end - h->start && memcmp(ignored[i].at, in->text + h->start, ignored[i].n) == 0) return;
    yett_emit(out, (yett_finding){.kind = "TICKET_ID", .start = h->start, .end = end, .confidence = 1, .severity = severity,
                                  .action = YETT_REDACT});
}

static int scan(yett_in *in, yett_out *out) {
    uint32_t n = yett_hits(in);
    for (uint32_t i = 0; i < n; i++) {
        const yett_hit *h = &in->hits[i];
        if (h->trigger == TICKET_MARK) ticket(in, out, h);
        if (h->trigger == DIGIT_RUN && badges) yett_flag(out, "BADGE_NUMBER", h->start, h->end, confidence);
        if (h->trigger == CODENAME) yett_replace(out, "CODENAME", h->start, h->end, 0.9f, YETT_STR("[codename]"));
    }
    return YETT_OK;
}

static const yett_spec spec = {
    .name = "ticket-ids",
    .version = "1.0.0",
    .kinds = (const yett_kind[]){{"TICKET_ID", YETT_MEDIUM}, {"BADGE_NUMBER", YETT_LOW}, {"CODENAME", YETT_HIGH}, {0}},
    .triggers = (const yett_trigger[]){
        [TICKET_MARK] = {.literal = "ACME-"},
        [DIGIT_RUN] = {.run_of = "digits", .min = 6},
        [CODENAME] = {.literal = "bluebird", .fold = 1},
        {0},
    },
    .stream = YETT_STREAM_WINDOW,
    .lookbehind = 64,
    .config = "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
              "\"min_digits\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":9},"
              "\"severity\":{\"enum\":[\"info\",\"low\",\"medium\",\"high\",\"critical\"]},"
              "\"badges\":{\"type\":\"boolean\"},"
              "\"confidence\":{\"type\":\"number\",\"minimum\":0,\"maximum\":1},"
              "\"ignore\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"pattern\":\"^ACME-\"}}}}",
    .init = configure,
    .scan = scan,
};
YETT_SCANNER(spec)

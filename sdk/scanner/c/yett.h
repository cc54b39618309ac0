// yett.h: write a module for ABI v1 (a scanner or an authorizer) in C11 with clang and nothing else, no libc.
//
//   #include "yett.h"
//
//   static int scan(yett_in *in, yett_out *out) {
//       uint32_t n = yett_hits(in);
//       for (uint32_t i = 0; i < n; i++) yett_redact(out, "CODENAME", in->hits[i].start, in->hits[i].end, 1);
//       return YETT_OK;
//   }
//
//   static const yett_spec spec = {
//       .name = "codename", .version = "1.0.0",
//       .kinds = (const yett_kind[]){{"CODENAME", YETT_HIGH}, {0}},
//       .triggers = (const yett_trigger[]){{.literal = "bluebird", .fold = 1}, {0}},
//       .scan = scan,
//   };
//   YETT_SCANNER(spec)
//
// Build: clang --target=wasm32 -std=c11 -O2 -nostdlib -ffreestanding -fvisibility=hidden -Wl,--no-entry -Wl,--strip-all
//        -Wl,-z,stack-size=65536 -o codename.wasm main.c
//
// Include it in one file only. Text comes in through yett_in, findings leave through yett_out; nothing else is to be had.
// Any mistake (an undeclared kind, a span outside the window) fails the call, which is never taken for "clean".
#ifndef YETT_H
#define YETT_H

#include <stddef.h>
#include <stdint.h>

// ---------------------------------------------------------------------------------------------------- what you use

enum { YETT_INFO, YETT_LOW, YETT_MEDIUM, YETT_HIGH, YETT_CRITICAL };               // severities
enum { YETT_FLAG, YETT_REDACT, YETT_REPLACE, YETT_DENY };                           // actions that a finding suggests
enum { YETT_ABSTAIN, YETT_PERMIT, YETT_DENY_CALL, YETT_DEFER };                     // effects of a check
enum { YETT_OK, YETT_BAD_CONFIG, YETT_UNSUPPORTED, YETT_INTERNAL, YETT_AUTHOR = 64 }; // statuses; from 64 on yours
enum { YETT_DEBUG, YETT_LOG_INFO, YETT_WARNING, YETT_ERROR };                       // levels of yett_log
enum { YETT_FIRST = 1, YETT_FINAL = 2, YETT_STREAM = 4, YETT_UTF8 = 8, YETT_TRUNCATED = 16, YETT_DRY_RUN = 32,
       YETT_HITS_COMPLETE = 64 };                                                   // flags of a call
enum { YETT_STREAM_NONE, YETT_STREAM_WINDOW, YETT_STREAM_STATEFUL };                // stream modes
enum { YETT_MAX_FINDINGS = 256, YETT_MAX_STATE = 4 << 10, YETT_MAX_PUT = 64 << 10, YETT_MAX_REPLACEMENT = 4 << 10 };

// Bytes somewhere, not ended by a NUL.
typedef struct { const char *at; uint32_t n; } yett_str;
#define YETT_STR(literal) ((yett_str){literal, sizeof(literal) - 1})

// One kind of finding, UPPER_SNAKE, and its default severity. A list ends with {0}.
typedef struct { const char *name; int severity; } yett_kind;

// A literal (ASCII case folded with fold) or a byte class without which the scanner can find nothing. A hit of a literal is
// each of its occurrences, overlapping ones included; a hit of a class is each maximal run of at least min bytes. Classes:
// "digits" 0-9, "hex" 0-9 a-f A-F, "base64" A-Z a-z 0-9 + / = - _, "at" the byte @. A list ends with {0}.
typedef struct { const char *literal; int fold; const char *run_of; uint32_t min; } yett_trigger;

// A list of strings in the configuration, each of which becomes a trigger: path is the names that lead to it, each after a slash
// ("/words"). .config must declare the list. Hits number its entries behind the triggers, list after list. A list ends with {0}.
typedef struct { const char *path; int fold; } yett_triggers_from;

// One occurrence of a trigger: its index and byte offsets into the text, end excluded.
typedef struct { uint32_t trigger, start, end; } yett_hit;

// One text to scan, valid until scan returns.
typedef struct {
    const uint8_t *text; uint32_t n;        // the window
    const uint8_t *state; uint32_t state_n; // what the last call kept with yett_set_state
    uint32_t flags;                         // YETT_FIRST and so on
    const yett_hit *hits;                   // after yett_hits
    const uint8_t *raw; uint32_t raw_n, hit_n, searched; // the SDK's own
} yett_in;

// One span of the text. A negative severity means the kind's own. What kind and replacement point to must last until
// scan returns.
typedef struct {
    const char *kind; uint32_t start, end; float confidence; int severity; int action; yett_str replacement;
} yett_finding;

typedef struct yett_out yett_out;

// A checked JSON value, as it was written.
typedef struct { const char *at; uint32_t n; } yett_json;
// A walk through an object's members: while (yett_next(&m)) … m.name, m.value.
typedef struct { yett_str name; yett_json value; const char *at, *end; } yett_members;

// What a check answers. The zero value abstains; every other effect needs a code in UPPER_SNAKE.
typedef struct { int effect; yett_str code, reason; int32_t ttl_ms; } yett_decision;

typedef struct {
    const char *name, *version;
    const yett_kind *kinds;       // every kind that scan may emit
    const yett_trigger *triggers; // none: scan sees every text, and there are no hits
    const yett_triggers_from *triggers_from; // lists whose entries are triggers too; what scan knows by itself stands in triggers
    int stream;                   // YETT_STREAM_…
    uint32_t lookbehind;          // bytes, for YETT_STREAM_WINDOW: no finding is longer
    const char *config;           // JSON Schema of the configuration; none: any object that init accepts
    uint32_t memory_mib, deadline_ms; // what the module cannot work without; 0: the host's default is enough
    int (*init)(yett_json config);    // once, before all else. Without it only {} is accepted
    int (*scan)(yett_in *in, yett_out *out);                 // returns a status
    int (*check)(yett_json call, yett_decision *decision);   // returns a status
} yett_spec;

// Fails the call: return yett_fail(YETT_BAD_CONFIG, "prefix", "must be a string"). why may be NULL. Gives the status.
static int yett_fail(int status, const char *what, const char *why);
// Every hit of every trigger in order of start, then trigger, in in->hits; gives their number. They are the host's where it
// found them all and searched for here otherwise. Hits of the host that do not fit the text fail the call.
static uint32_t yett_hits(yett_in *in);
static void yett_emit(yett_out *out, yett_finding f);
// The shorthands take the kind's own severity.
static void yett_flag(yett_out *out, const char *kind, uint32_t start, uint32_t end, float confidence);
static void yett_redact(yett_out *out, const char *kind, uint32_t start, uint32_t end, float confidence);
static void yett_replace(yett_out *out, const char *kind, uint32_t start, uint32_t end, float confidence, yett_str with);
// At most YETT_MAX_STATE bytes for the next call of a stateful stream; they must last until scan returns.
static void yett_set_state(yett_out *out, const void *state, uint32_t n);
// A JSON document of at most YETT_MAX_PUT bytes for the record; it must last until scan returns.
static void yett_annotate(yett_out *out, yett_str json);
static void yett_log(int level, yett_str line);

// The readers give 0 when the value is of another type. Names are unique and strings are UTF-8 without escapes, which the
// SDK has checked before init and check run.
static int yett_object(yett_json v, yett_members *m);
static int yett_next(yett_members *m);
static int yett_elements(yett_json v, yett_members *m); // of an array; names stay empty
static int yett_string(yett_json v, yett_str *s);
static int yett_bool(yett_json v, int *b);
static int yett_number(yett_json v, double *d);
static int yett_find_member(yett_json object, const char *name, yett_json *v);
static int yett_same(yett_str a, const char *b);

// Memory. What is taken in init stays; what is taken in a scan or a check is gone when that returns. Traps when there is none.
static void *yett_alloc(uint32_t n);

// ------------------------------------------------------------------------------------------------------- the inside

#define YETT__IMPORT(name) __attribute__((import_module("yett_v1"), import_name(name)))
#define YETT__EXPORT(name) __attribute__((export_name(name)))
#define YETT__UNUSED __attribute__((unused))
#define YETT__COLD __attribute__((unused, noinline, minsize)) // what runs once or seldom: small rather than fast

YETT__IMPORT("emit") extern int32_t yett__host_emit(const char *kind, uint32_t kind_n, uint32_t start, uint32_t end,
    float confidence, int32_t severity, int32_t action, const char *with, uint32_t with_n);
YETT__IMPORT("decide") extern int32_t yett__host_decide(int32_t effect, const char *code, uint32_t code_n, const char *reason,
    uint32_t reason_n, int32_t ttl_ms);
YETT__IMPORT("put") extern int32_t yett__host_put(int32_t slot, const void *p, uint32_t n);
YETT__IMPORT("log") extern void yett__host_log(int32_t level, const char *p, uint32_t n);

// What the compiler calls on its own account.
__attribute__((weak, minsize)) void *memcpy(void *to, const void *from, size_t n) {
    for (size_t i = 0; i < n; i++) ((char *)to)[i] = ((const char *)from)[i];
    return to;
}
__attribute__((weak, minsize)) void *memset(void *to, int c, size_t n) {
    for (size_t i = 0; i < n; i++) ((char *)to)[i] = (char)c;
    return to;
}
__attribute__((weak, minsize)) void *memmove(void *to, const void *from, size_t n) {
    if (to < from) return memcpy(to, from, n);
    for (size_t i = n; i-- > 0;) ((char *)to)[i] = ((const char *)from)[i];
    return to;
}
__attribute__((weak, minsize)) int memcmp(const void *a, const void *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (((const uint8_t *)a)[i] != ((const uint8_t *)b)[i]) return ((const uint8_t *)a)[i] - ((const uint8_t *)b)[i];
    return 0;
}

static YETT__UNUSED uint32_t yett__len(const char *s) {
    uint32_t n = 0;
    while (s && s[n]) n++;
    return n;
}

// The heap: what a call takes lies above what stays. The first buffer has room for the usual window and its hits, because
// an instance whose memory grows after init is thrown away by the host.
enum { YETT__FIRST_BUFFER = 160 << 10, YETT__FIRST_HITS = 4096, YETT__MAX_BUFFER = 256 << 20, YETT__SCRATCH = 64 << 10 };
extern uint8_t __heap_base;
static uint64_t yett__first[YETT__FIRST_BUFFER / 8];
static yett_hit yett__hits[YETT__FIRST_HITS];
static uint8_t *yett__buffer = (uint8_t *)yett__first;
static uint32_t yett__room = YETT__FIRST_BUFFER;
static uint32_t yett__top; // of the heap; 0 before first use

static uint8_t *yett__take(uint32_t n, uint32_t align) {
    if (!yett__top) yett__top = (uint32_t)&__heap_base;
    uint64_t at = ((uint64_t)yett__top + align - 1) & ~(uint64_t)(align - 1), end = at + n;
    uint64_t have = (uint64_t)__builtin_wasm_memory_size(0) << 16;
    if (end > have && (end > UINT32_MAX || __builtin_wasm_memory_grow(0, (end - have + 65535) >> 16) == (size_t)-1))
        return NULL;
    yett__top = (uint32_t)end;
    return (uint8_t *)(uint32_t)at;
}

static YETT__COLD void *yett_alloc(uint32_t n) {
    uint8_t *p = yett__take(n, 8);
    if (!p) __builtin_trap();
    return p;
}

static YETT__COLD uint8_t *yett__reserve(uint32_t n) {
    if (n > YETT__MAX_BUFFER) return NULL;
    if (n <= yett__room) return yett__buffer;
    if (yett__buffer + yett__room == (uint8_t *)yett__top) yett__top -= yett__room; // it is last: make it longer
    uint32_t before = yett__top;
    uint8_t *p = yett__take((n + 7) & ~7u, 8);
    if (!p) {
        yett__top = before;
        yett__room = yett__buffer == (uint8_t *)yett__first ? YETT__FIRST_BUFFER : 0;
        return NULL;
    }
    yett__buffer = p;
    yett__room = (n + 7) & ~7u;
    return p;
}

static YETT__COLD int yett_same(yett_str a, const char *b) {
    return a.n == yett__len(b) && memcmp(a.at, b, a.n) == 0;
}

static const yett_spec *yett__spec;
static int yett__ready, yett__failed;
static int32_t *yett__next_literal; // by trigger: the next one with the same first letter
static int32_t yett__literals[256], *yett__runs, yett__run_n;
static uint8_t yett__starts[256]; // whether a literal may start with the byte, or a run hold it
static uint32_t yett__trigger_n, *yett__length; // by trigger: bytes of its literal
static yett_trigger *yett__triggers;            // all: the spec's, and behind them the entries of its lists
static uint8_t *yett__class;                    // by trigger: its class as a bit, 0 for a literal

static YETT__COLD int yett_fail(int status, const char *what, const char *why) {
    if (yett__failed) return status;
    yett__failed = 1;
    uint32_t a = yett__len(what), b = yett__len(why), n = a + (b ? b + 2 : 0);
    char *s = yett_alloc(n + 1);
    memcpy(s, what, a);
    if (b) {
        memcpy(s + a, ": ", 2);
        memcpy(s + a + 2, why, b);
    }
    yett__host_put(0, s, n < YETT_MAX_PUT ? n : YETT_MAX_PUT);
    return status;
}

static YETT__UNUSED void yett_log(int level, yett_str line) { yett__host_log(level, line.at, line.n); }

// ---- triggers

static uint8_t yett__fold(uint8_t c) { return c >= 'A' && c <= 'Z' ? c | 0x20 : c; }

// The classes a byte is in, as bits: digits 1, hex 2, base64 4, at 8.
static uint8_t yett__class_bits(uint8_t c) {
    uint8_t low = c | 0x20;
    if (c >= '0' && c <= '9') return 7;
    if (low >= 'a' && low <= 'f') return 6;
    if (low >= 'a' && low <= 'z') return 4;
    if (c == '+' || c == '/' || c == '=' || c == '-' || c == '_') return 4;
    return c == '@' ? 8 : 0;
}

static uint8_t yett__class_of(const char *name) {
    yett_str s = {name, yett__len(name)};
    return yett_same(s, "digits") ? 1 : yett_same(s, "hex") ? 2 : yett_same(s, "base64") ? 4 : yett_same(s, "at") ? 8 : 0;
}

enum { YETT__ENTRY = 256, YETT__CONFIG_TRIGGERS = 10000 };

// The list at a path, walked over twice: to count its entries, and with to, to copy them. why is set when it is none.
static YETT__COLD uint32_t yett__entries(const yett_triggers_from *from, yett_json at, yett_trigger *to, const char **why) {
    const char *p = from->path;
    while (*p == '/') {
        uint32_t n = 0;
        for (p++; p[n] && p[n] != '/'; n++) {}
        char *name = yett_alloc(n + 1);
        memcpy(name, p, n);
        name[n] = 0;
        if (*at.at != '{') { *why = "must be an object"; return 0; }
        if (!yett_find_member(at, name, &at)) return 0;
        p += n;
    }
    yett_members m;
    uint32_t count = 0;
    if (!yett_elements(at, &m)) { *why = "must be an array of strings"; return 0; }
    while (yett_next(&m)) {
        yett_str s;
        if (!yett_string(m.value, &s) || s.n < 1 || s.n > YETT__ENTRY) { *why = "must be an array of strings of 1 to 256 bytes"; return 0; }
        for (uint32_t i = 0; i < s.n; i++) // a literal ends with it here
            if (!s.at[i]) { *why = "must not hold a NUL character"; return 0; }
        if (++count > YETT__CONFIG_TRIGGERS) { *why = "more than 10000 entries"; return 0; }
        if (!to) continue;
        char *text = yett_alloc(s.n + 1);
        memcpy(text, s.at, s.n);
        text[s.n] = 0;
        to[count - 1] = (yett_trigger){.literal = text, .fold = from->fold};
    }
    return count;
}

static YETT__COLD int yett__add_triggers(yett_json config) {
    const yett_trigger *t = yett__spec->triggers;
    const yett_triggers_from *from = yett__spec->triggers_from;
    const char *why = NULL;
    uint32_t own = 0, n = 0;
    while (t && (t[own].literal || t[own].run_of)) own++;
    for (uint32_t i = 0; from && from[i].path; i++) {
        n += yett__entries(&from[i], config, NULL, &why);
        if (!why && n > YETT__CONFIG_TRIGGERS) why = "more than 10000 entries in all lists of triggers together";
        if (why) return yett_fail(YETT_BAD_CONFIG, from[i].path, why);
    }
    yett__triggers = yett_alloc((own + n + 1) * sizeof(yett_trigger));
    memcpy(yett__triggers, t, own * sizeof(yett_trigger));
    for (uint32_t i = 0, at = own; from && from[i].path; i++) at += yett__entries(&from[i], config, yett__triggers + at, &why);
    yett__trigger_n = own + n;
    return YETT_OK;
}

static YETT__COLD const char *yett__compile(void) {
    const yett_trigger *t = yett__triggers;
    for (uint32_t i = 0; i < 256; i++) yett__literals[i] = -1;
    uint32_t n = yett__trigger_n;
    yett__next_literal = yett_alloc(n * 4), yett__runs = yett_alloc(n * 4), yett__length = yett_alloc(n * 4);
    yett__class = yett_alloc(n);
    memset(yett__class, 0, n);
    uint8_t bits = 0;
    for (int32_t i = (int32_t)yett__trigger_n - 1; i >= 0; i--) { // backwards, so that the lists run forwards
        yett__length[i] = yett__len(t[i].literal);
        if (t[i].run_of) {
            yett__class[i] = yett__class_of(t[i].run_of);
            if (t[i].literal || !yett__class[i] || t[i].min < 1) return "a trigger with an unknown class or without min";
            bits |= yett__class[i];
            continue;
        }
        if (!yett__length[i]) return "an empty trigger";
        uint8_t c = yett__fold((uint8_t)t[i].literal[0]);
        yett__next_literal[i] = yett__literals[c];
        yett__literals[c] = i;
    }
    for (uint32_t i = 0; i < yett__trigger_n; i++)
        if (yett__class[i]) yett__runs[yett__run_n++] = (int32_t)i;
    for (uint32_t c = 0; c < 256; c++)
        yett__starts[c] = yett__literals[yett__fold((uint8_t)c)] >= 0 || (yett__class_bits((uint8_t)c) & bits);
    return NULL;
}

// Where the hit of trigger t that starts at the given offset ends, or 0.
static uint32_t yett__match(const yett_in *in, uint32_t t, uint32_t at) {
    const yett_trigger *trigger = &yett__triggers[t];
    uint8_t class = yett__class[t];
    uint32_t end = at;
    if (class) {
        if (at > 0 && (yett__class_bits(in->text[at - 1]) & class)) return 0;
        while (end < in->n && (yett__class_bits(in->text[end]) & class)) end++;
        return end - at >= trigger->min ? end : 0;
    }
    if (in->n - at < yett__length[t]) return 0;
    for (const char *l = trigger->literal; *l; l++, end++) {
        uint8_t a = in->text[end], b = (uint8_t)*l;
        if (a != b && (!trigger->fold || yett__fold(a) != yett__fold(b))) return 0;
    }
    return end;
}

static YETT__COLD yett_hit *yett__add_hit(yett_hit *hits, uint32_t n, uint32_t *room, yett_hit h) {
    if (n == *room) {
        yett_hit *more = yett_alloc(*room * 2 * sizeof(yett_hit));
        memcpy(more, hits, n * sizeof(yett_hit));
        hits = more;
        *room *= 2;
    }
    hits[n] = h;
    return hits;
}

static uint32_t yett__search(yett_in *in) {
    yett_hit *hits = yett__hits;
    uint32_t n = 0, room = YETT__FIRST_HITS;
    for (uint32_t i = 0; i < in->n; i++) {
        if (!yett__starts[in->text[i]]) continue;
        int32_t literal = yett__literals[yett__fold(in->text[i])], r = 0;
        while (literal >= 0 || r < yett__run_n) { // two lists, each in order of trigger
            int32_t t;
            if (r == yett__run_n || (literal >= 0 && literal < yett__runs[r])) {
                t = literal;
                literal = yett__next_literal[literal];
            } else {
                t = yett__runs[r++];
                if (!(yett__class_bits(in->text[i]) & yett__class[t])) continue;
            }
            uint32_t end = yett__match(in, (uint32_t)t, i);
            if (end) hits = yett__add_hit(hits, n++, &room, (yett_hit){(uint32_t)t, i, end});
        }
    }
    in->hits = hits;
    return n;
}

static uint32_t yett__word(const uint8_t *p) { return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24; }

static int yett__hit_after(const yett_hit *a, const yett_hit *b) {
    return a->start != b->start ? a->start > b->start : a->trigger > b->trigger;
}

// The host's hits, each checked against the text, in order and once.
static YETT__COLD uint32_t yett__decode(yett_in *in) {
    yett_hit *hits = yett__hits;
    uint32_t room = YETT__FIRST_HITS, n = 0;
    for (uint32_t i = 0; i < in->raw_n; i++) {
        uint32_t t = yett__word(in->raw + 8 * i), at = yett__word(in->raw + 8 * i + 4), end = 0;
        if (t < yett__trigger_n && at < in->n) end = yett__match(in, t, at);
        if (!end) {
            yett_fail(YETT_INTERNAL, "the host's hits do not fit the text", NULL);
            return 0;
        }
        hits = yett__add_hit(hits, i, &room, (yett_hit){t, at, end});
    }
    for (uint32_t gap = in->raw_n / 2; gap; gap /= 2)
        for (uint32_t i = gap; i < in->raw_n; i++) {
            yett_hit h = hits[i];
            uint32_t j = i;
            for (; j >= gap && yett__hit_after(&hits[j - gap], &h); j -= gap) hits[j] = hits[j - gap];
            hits[j] = h;
        }
    for (uint32_t i = 0; i < in->raw_n; i++)
        if (!n || hits[n - 1].start != hits[i].start || hits[n - 1].trigger != hits[i].trigger) hits[n++] = hits[i];
    in->hits = hits;
    return n;
}

static YETT__UNUSED uint32_t yett_hits(yett_in *in) {
    if (!in->searched) in->hit_n = in->flags & YETT_HITS_COMPLETE ? yett__decode(in) : yett__search(in);
    in->searched = 1;
    return in->hit_n;
}

// ---- findings

struct yett_out {
    yett_finding *found; uint32_t n, room, window;
    const void *state; uint32_t state_n; int has_state;
    yett_str notes; int has_notes;
};

static YETT__COLD void yett_emit(yett_out *out, yett_finding f) {
    const yett_kind *k = yett__spec->kinds;
    yett_str name = {f.kind, yett__len(f.kind)};
    while (k && k->name && !yett_same(name, k->name)) k++;
    if (!k || !k->name) {
        yett_fail(YETT_INTERNAL, "finding of undeclared kind", f.kind);
        return;
    }
    f.kind = k->name;
    if (f.severity < 0) f.severity = k->severity;
    const char *why = NULL;
    if (f.end == f.start) why = "empty: a finding is of one byte or more";
    else if (f.end < f.start || f.end > out->window) why = "outside the window";
    else if (yett__spec->stream == YETT_STREAM_WINDOW && f.end - f.start > yett__spec->lookbehind) why = "longer than lookbehind";
    else if (!(f.confidence >= 0 && f.confidence <= 1)) why = "confidence must be 0–1";
    else if (f.severity > YETT_CRITICAL || f.action < 0 || f.action > YETT_DENY) why = "bad severity or action";
    else if (f.replacement.n > YETT_MAX_REPLACEMENT) why = "replacement longer than 4096 bytes";
    if (why) {
        yett_fail(YETT_INTERNAL, f.kind, why);
        return;
    }
    if (out->n == out->room) {
        yett_finding *more = yett_alloc((out->room ? out->room * 2 : YETT_MAX_FINDINGS) * sizeof f);
        memcpy(more, out->found, out->n * sizeof f);
        out->found = more;
        out->room = out->room ? out->room * 2 : YETT_MAX_FINDINGS;
    }
    out->found[out->n++] = f;
}

static YETT__COLD void yett_flag(yett_out *out, const char *kind, uint32_t start, uint32_t end, float confidence) {
    yett_emit(out, (yett_finding){kind, start, end, confidence, -1, YETT_FLAG, {0}});
}
static YETT__COLD void yett_redact(yett_out *out, const char *kind, uint32_t start, uint32_t end, float confidence) {
    yett_emit(out, (yett_finding){kind, start, end, confidence, -1, YETT_REDACT, {0}});
}
static YETT__COLD void yett_replace(yett_out *out, const char *kind, uint32_t start, uint32_t end, float confidence, yett_str with) {
    yett_emit(out, (yett_finding){kind, start, end, confidence, -1, YETT_REPLACE, with});
}
static YETT__UNUSED void yett_set_state(yett_out *out, const void *state, uint32_t n) {
    if (n > YETT_MAX_STATE) yett_fail(YETT_INTERNAL, "state longer than 4096 bytes", NULL);
    out->state = state, out->state_n = n, out->has_state = 1;
}
static YETT__UNUSED void yett_annotate(yett_out *out, yett_str json) {
    if (json.n > YETT_MAX_PUT) yett_fail(YETT_INTERNAL, "annotation longer than 65536 bytes", NULL);
    out->notes = json, out->has_notes = 1;
}

static int yett__order(const char *a, const char *b) {
    while (*a && *a == *b) a++, b++;
    return (uint8_t)*a - (uint8_t)*b;
}
static int yett__after(const yett_finding *a, const yett_finding *b) {
    if (a->start != b->start) return a->start > b->start;
    if (a->end != b->end) return a->end > b->end;
    return yett__order(a->kind, b->kind) > 0;
}
static int yett__equal(const yett_finding *a, const yett_finding *b) {
    return a->start == b->start && a->end == b->end && a->kind == b->kind && a->confidence == b->confidence &&
           a->severity == b->severity && a->action == b->action && a->replacement.n == b->replacement.n &&
           memcmp(a->replacement.at, b->replacement.at, a->replacement.n) == 0;
}

// A stable merge sort: findings usually come in order, and that is seen first.
static YETT__COLD void yett__sort(yett_out *out) {
    uint32_t i = 1;
    while (i < out->n && !yett__after(&out->found[i - 1], &out->found[i])) i++;
    if (i >= out->n) return;
    yett_finding *from = out->found, *to = yett_alloc(out->n * sizeof *to);
    for (uint32_t width = 1; width < out->n; width *= 2) {
        for (uint32_t low = 0, k = 0; low < out->n; low += 2 * width) {
            uint32_t mid = low + width < out->n ? low + width : out->n, a = low, b = mid;
            uint32_t high = mid + width < out->n ? mid + width : out->n;
            while (a < mid || b < high) to[k++] = b == high || (a < mid && !yett__after(&from[a], &from[b])) ? from[a++] : from[b++];
        }
        yett_finding *t = from;
        from = to, to = t;
    }
    out->found = from;
}

// A replacement cannot cover several findings, so it counts as redaction.
static int yett__harder(int a, int b) {
    a = a == YETT_REPLACE ? YETT_REDACT : a, b = b == YETT_REPLACE ? YETT_REDACT : b;
    return a > b ? a : b;
}

// Sorts, drops repetitions and folds what is over the ABI's 256 findings into the last: it covers them all.
static YETT__COLD int yett__finish(yett_out *out) {
    yett__sort(out);
    uint32_t n = 0;
    for (uint32_t i = 0; i < out->n; i++)
        if (!n || !yett__equal(&out->found[n - 1], &out->found[i])) out->found[n++] = out->found[i];
    out->n = n;
    if (n <= YETT_MAX_FINDINGS) return 0;
    yett_finding *last = &out->found[YETT_MAX_FINDINGS - 1];
    for (uint32_t i = YETT_MAX_FINDINGS; i < n; i++) {
        const yett_finding *f = &out->found[i];
        if (f->end > last->end) last->end = f->end;
        if (f->confidence > last->confidence) last->confidence = f->confidence;
        if (f->severity > last->severity) last->severity = f->severity;
        last->action = yett__harder(last->action, f->action);
    }
    last->replacement.n = 0;
    out->n = YETT_MAX_FINDINGS;
    return 1;
}

static YETT__COLD void yett__send(yett_out *out) {
    int folded = yett__finish(out);
    for (uint32_t i = 0; i < out->n; i++) {
        yett_finding *f = &out->found[i];
        if (yett__host_emit(f->kind, yett__len(f->kind), f->start, f->end, f->confidence, f->severity, f->action,
                            f->replacement.at, f->replacement.n)) break; // the host has what it wants and says so
    }
    if (folded) yett_log(YETT_LOG_INFO, YETT_STR("more findings than allowed: the last one covers the rest"));
    if (out->has_state) yett__host_put(2, out->state, out->state_n);
    if (out->has_notes) yett__host_put(3, out->notes.at, out->notes.n);
}

// ---- JSON

enum { YETT__DEPTH = 128 }; // the host lets 64 pass in what a call carries

static const char *yett__space(const char *p, const char *end) {
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r')) p++;
    return p;
}

static YETT__COLD int yett__hex4(const char *p, const char *end, uint32_t *u) {
    *u = 0;
    if (end - p < 4) return 0;
    for (int i = 0; i < 4; i++) {
        uint8_t c = (uint8_t)p[i], low = c | 0x20;
        if (c >= '0' && c <= '9') *u = *u << 4 | (c - '0');
        else if (low >= 'a' && low <= 'f') *u = *u << 4 | (low - 'a' + 10);
        else return 0;
    }
    return 1;
}

static YETT__COLD char *yett__utf8(char *to, uint32_t u) {
    if (u < 0x80) return *to++ = (char)u, to;
    if (u < 0x800) *to++ = (char)(0xc0 | u >> 6);
    else {
        if (u < 0x10000) *to++ = (char)(0xe0 | u >> 12);
        else *to++ = (char)(0xf0 | u >> 18), *to++ = (char)(0x80 | (u >> 12 & 63));
        *to++ = (char)(0x80 | (u >> 6 & 63));
    }
    *to++ = (char)(0x80 | (u & 63));
    return to;
}

// Reads over a string, from its quote to behind the other; NULL when it is none. Escapes are undone into s if that is given.
static YETT__COLD const char *yett__read_string(const char *p, const char *end, yett_str *s) {
    static const char escapes[] = "\"\\/bfnrt", meaning[] = "\"\\/\b\f\n\r\t";
    if (p == end || *p++ != '"') return NULL;
    char *to = NULL;
    if (s) s->at = to = (char *)yett_alloc((uint32_t)(end - p) + 1);
    while (p < end && *p != '"') {
        uint32_t u = (uint8_t)*p++, low;
        if (u < 0x20) return NULL;
        if (u == '\\') {
            if (p == end) return NULL;
            int i = 0;
            while (i < 8 && escapes[i] != *p) i++;
            if (i < 8) u = (uint8_t)meaning[i], p++;
            else {
                if (*p++ != 'u' || !yett__hex4(p, end, &u)) return NULL;
                p += 4;
                if (u >= 0xd800 && u < 0xe000) {
                    if (u >= 0xdc00 || end - p < 6 || p[0] != '\\' || p[1] != 'u' || !yett__hex4(p + 2, end, &low)) return NULL;
                    if (low < 0xdc00 || low > 0xdfff) return NULL;
                    u = 0x10000 + ((u - 0xd800) << 10 | (low - 0xdc00));
                    p += 6;
                }
                if (to) to = yett__utf8(to, u);
                continue;
            }
        }
        if (to) *to++ = (char)u;
    }
    if (p == end) return NULL;
    if (s) {
        s->n = (uint32_t)(to - s->at);
        yett__top = ((uint32_t)to + 7) & ~7u; // the copy is no longer than what was written
    }
    return p + 1;
}

static const char *yett__digits(const char *p, const char *end) {
    const char *start = p;
    while (p < end && *p >= '0' && *p <= '9') p++;
    return p > start ? p : NULL;
}

static YETT__COLD const char *yett__read_number(const char *p, const char *end) {
    if (p < end && *p == '-') p++;
    if (p < end && *p == '0') p++;
    else if (!(p = yett__digits(p, end))) return NULL;
    if (p < end && *p == '.' && !(p = yett__digits(p + 1, end))) return NULL;
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '+' || *p == '-')) p++;
        p = yett__digits(p, end);
    }
    return p;
}

typedef struct yett__name { struct yett__name *next; yett_str s; } yett__name;

// Reads over one value; NULL when it is not strict JSON of at most 128 levels with names that are unique.
static YETT__COLD const char *yett__read(const char *p, const char *end, int depth) {
    if (p == end || depth > YETT__DEPTH) return NULL;
    if (*p == '"') return yett__read_string(p, end, NULL);
    for (int i = 0; i < 3; i++) {
        static const char *const words[] = {"true", "false", "null"};
        uint32_t n = yett__len(words[i]);
        if ((size_t)(end - p) >= n && memcmp(p, words[i], n) == 0) return p + n;
    }
    if (*p != '{' && *p != '[') return yett__read_number(p, end);
    char close = *p == '{' ? '}' : ']';
    yett__name *names = NULL;
    p = yett__space(p + 1, end);
    if (p < end && *p == close) return p + 1;
    for (;;) {
        p = yett__space(p, end);
        if (close == '}') {
            yett__name *name = yett_alloc(sizeof *name);
            *name = (yett__name){names, {0}};
            if (!(p = yett__read_string(p, end, &name->s))) return NULL;
            for (yett__name *o = names; o; o = o->next)
                if (o->s.n == name->s.n && memcmp(o->s.at, name->s.at, o->s.n) == 0) return NULL;
            names = name;
            p = yett__space(p, end);
            if (p == end || *p != ':') return NULL;
            p = yett__space(p + 1, end);
        }
        if (!(p = yett__read(p, end, depth + 1))) return NULL;
        p = yett__space(p, end);
        if (p == end) return NULL;
        if (*p == close) return p + 1;
        if (*p++ != ',') return NULL;
    }
}

static YETT__COLD int yett__valid_utf8(const uint8_t *p, const uint8_t *end) {
    while (p < end) {
        uint32_t c = *p++, more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : 9;
        if (more > (uint32_t)(end - p)) return 0;
        if (more && ((c == 0xe0 && *p < 0xa0) || (c == 0xed && *p > 0x9f) || (c == 0xf0 && *p < 0x90) || (c == 0xf4 && *p > 0x8f))) return 0;
        while (more--)
            if ((*p++ & 0xc0) != 0x80) return 0;
    }
    return 1;
}

// One JSON object and nothing behind it.
static YETT__COLD int yett__document(const char *p, uint32_t n, yett_json *v) {
    const char *end = p + n;
    if (!yett__valid_utf8((const uint8_t *)p, (const uint8_t *)end)) return 0;
    p = yett__space(p, end);
    uint32_t top = yett__top;
    const char *stop = p < end && *p == '{' ? yett__read(p, end, 0) : NULL;
    if (top) yett__top = top; // the names that were compared
    if (!stop || yett__space(stop, end) != end) return 0;
    *v = (yett_json){p, (uint32_t)(stop - p)};
    return 1;
}

// Reads over one value of a checked document.
static YETT__COLD const char *yett__skip(const char *p, const char *end) {
    for (int depth = 0; p < end; p++) {
        if (*p == '"')
            for (p++; *p != '"'; p++) p += *p == '\\';
        else if (*p == '{' || *p == '[') depth++;
        else if (depth == 0 && (*p == ',' || *p == '}' || *p == ']' || yett__space(p, end) != p)) break;
        else if (*p == '}' || *p == ']') depth--;
    }
    return p;
}

static YETT__UNUSED int yett_object(yett_json v, yett_members *m) {
    *m = (yett_members){.at = v.at + 1, .end = v.at + v.n};
    return v.n > 0 && *v.at == '{';
}
static YETT__UNUSED int yett_elements(yett_json v, yett_members *m) {
    *m = (yett_members){.at = v.at + 1, .end = v.at + v.n};
    return v.n > 0 && *v.at == '[';
}
static YETT__COLD int yett_next(yett_members *m) {
    const char *p = yett__space(m->at, m->end);
    int object = m->end[-1] == '}';
    if (p >= m->end - 1) return 0;
    if (*p == ',') p = yett__space(p + 1, m->end);
    if (object) p = yett__space(yett__space(yett__read_string(p, m->end, &m->name), m->end) + 1, m->end);
    m->at = yett__skip(p, m->end);
    m->value = (yett_json){p, (uint32_t)(m->at - p)};
    return 1;
}
static YETT__COLD int yett_find_member(yett_json object, const char *name, yett_json *v) {
    yett_members m;
    if (!yett_object(object, &m)) return 0;
    while (yett_next(&m))
        if (yett_same(m.name, name)) return *v = m.value, 1;
    return 0;
}
static YETT__COLD int yett_string(yett_json v, yett_str *s) {
    return v.n > 0 && *v.at == '"' && yett__read_string(v.at, v.at + v.n, s) != NULL;
}
static YETT__UNUSED int yett_bool(yett_json v, int *b) {
    *b = v.n == 4;
    return v.n > 0 && (*v.at == 't' || *v.at == 'f');
}

// Exact for up to 15 digits and powers of ten up to 22; beyond that the last bits may differ. 0 when out of range.
static YETT__COLD int yett_number(yett_json v, double *d) {
    const char *p = v.at, *end = v.at + v.n;
    if (p == end || !(*p == '-' || (*p >= '0' && *p <= '9'))) return 0;
    int minus = *p == '-', power = 0, point = 0, e = 0, e_minus = 0;
    uint64_t digits = 0;
    for (p += minus; p < end && *p != 'e' && *p != 'E'; p++) {
        if (*p == '.') point = 1;
        else if (digits < 1000000000000000000u) digits = digits * 10 + (uint64_t)(*p - '0'), power -= point;
        else power += !point;
    }
    if (p < end) {
        e_minus = *++p == '-';
        for (p += *p == '-' || *p == '+'; p < end; p++)
            if (e < 100000) e = e * 10 + (*p - '0');
    }
    power += e_minus ? -e : e;
    double x = (double)digits;
    for (int left = power < 0 ? -power : power; left && x; ) {
        double scale = 1;
        for (int i = 0; i < 22 && left; i++, left--) scale *= 10;
        x = power < 0 ? x / scale : x * scale;
        if (x > 1.7976931348623157e308) return 0;
    }
    *d = minus ? -x : x;
    return 1;
}

// ---- exports

static YETT__COLD const char *yett__setup(const yett_spec *spec) {
    if (yett__spec) return NULL;
    if (!spec->name || !spec->version || (!spec->scan && !spec->check)) return "name, version and one of scan and check are required";
    if (spec->stream == YETT_STREAM_WINDOW && !spec->lookbehind) return "a window stream needs lookbehind";
    yett__spec = spec;
    return NULL;
}

static YETT__COLD int yett__no_config(yett_json config) {
    yett_members m;
    yett_object(config, &m);
    return yett_next(&m) ? yett_fail(YETT_BAD_CONFIG, "this scanner has no configuration", NULL) : YETT_OK;
}

static YETT__COLD int yett__init(const yett_spec *spec, uint32_t n) {
    yett_json doc, config = {"{}", 2}, member;
    yett_members m;
    yett__failed = 0;
    const char *why = yett__setup(spec);
    if (why) return yett_fail(YETT_INTERNAL, why, NULL);
    if (yett__ready) return yett_fail(YETT_BAD_CONFIG, "initialised twice", NULL);
    if (n > yett__room || !yett__document((const char *)yett__buffer, n, &doc)) return yett_fail(YETT_BAD_CONFIG, "not a strict JSON object", NULL);
    if (!yett_find_member(doc, "abi", &member) || member.n != 1 || *member.at != '1') return yett_fail(YETT_BAD_CONFIG, "abi", "must be 1");
    for (yett_object(doc, &m); yett_next(&m);) {
        yett_str s;
        if (yett_same(m.name, "config") && *m.value.at != 'n') config = m.value;
        else if (yett_same(m.name, "name") ? !yett_string(m.value, &s) : !yett_same(m.name, "abi") && !yett_same(m.name, "config"))
            return yett_fail(YETT_BAD_CONFIG, "bad member of the init document", NULL);
    }
    if (*config.at != '{') return yett_fail(YETT_BAD_CONFIG, "config", "must be an object");
    if ((spec->init ? spec->init : yett__no_config)(config) != YETT_OK || yett__failed)
        return yett_fail(YETT_BAD_CONFIG, "the configuration is refused", NULL);
    if (yett__add_triggers(config) != YETT_OK) return YETT_BAD_CONFIG;
    if ((why = yett__compile())) return yett_fail(YETT_INTERNAL, why, NULL);
    uint32_t top = yett__top; // room for what a call takes, so that memory need not grow
    yett_alloc(YETT__SCRATCH);
    yett__top = top;
    yett__ready = 1;
    return YETT_OK;
}

static YETT__UNUSED int yett__scan(const yett_spec *spec, uint32_t state, uint32_t n, uint32_t flags) {
    uint32_t hits = flags >> 8, top = yett__top;
    uint64_t window = (uint64_t)state + n, hits_at = (window + 3) & ~(uint64_t)3;
    yett__failed = 0;
    if (!yett__ready || (hits ? hits_at + (uint64_t)hits * 8 : window) > yett__room)
        return yett_fail(YETT_INTERNAL, "scan before init or without a buffer", NULL);
    yett_in in = {.state = yett__buffer, .state_n = state, .text = yett__buffer + state, .n = n, .flags = flags & 255,
                  .raw = yett__buffer + hits_at, .raw_n = hits};
    yett_out out = {.window = n};
    int status = spec->scan(&in, &out);
    if (status == YETT_OK && yett__failed) status = YETT_INTERNAL;
    if (status == YETT_OK) yett__send(&out);
    yett__top = top;
    return status;
}

static YETT__COLD int yett__check(const yett_spec *spec, uint32_t n) {
    uint32_t top = yett__top;
    yett_json call;
    yett_decision d = {0};
    yett__failed = 0;
    if (!yett__ready || n > yett__room || !yett__document((const char *)yett__buffer, n, &call))
        return yett_fail(YETT_INTERNAL, "check before init or of something that is not strict JSON", NULL);
    int status = spec->check(call, &d);
    if (status == YETT_OK && yett__failed) status = YETT_INTERNAL;
    if (status == YETT_OK && yett__host_decide(d.effect, d.code.at, d.code.n, d.reason.at, d.reason.n, d.ttl_ms) != 0)
        status = YETT_INTERNAL;
    yett__top = top;
    return status;
}

// The metadata, written to the top of the heap.
static YETT__COLD void yett__w(const char *s) {
    for (; *s; s++) *(char *)yett__take(1, 1) = *s;
}
static YETT__COLD void yett__quoted(const char *s) {
    static const char hex[] = "0123456789abcdef";
    yett__w("\"");
    for (; *s; s++) {
        uint8_t c = (uint8_t)*s;
        char plain[2] = {*s, 0}, control[7] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15], 0};
        if (c == '"' || c == '\\') yett__w("\\");
        yett__w(c < 0x20 ? control : plain);
    }
    yett__w("\"");
}
static YETT__COLD void yett__decimal(uint64_t n) {
    char digits[21], *p = digits + 20;
    *p = 0;
    do *--p = (char)('0' + n % 10);
    while (n /= 10);
    yett__w(p);
}
static YETT__COLD void yett__trigger(const yett_trigger *t) {
    yett__w(t->run_of ? "{\"class\":" : "{\"literal\":");
    yett__quoted(t->run_of ? t->run_of : t->literal);
    if (t->run_of) yett__w(",\"min\":"), yett__decimal(t->min);
    else if (t->fold) yett__w(",\"fold\":true");
    yett__w("}");
}

static YETT__COLD int yett__describe(const yett_spec *spec) {
    static const char *const modes[] = {"none", "window", "stateful"};
    yett__failed = 0;
    const char *why = yett__setup(spec);
    if (why) return yett_fail(YETT_INTERNAL, why, NULL);
    uint8_t *start = yett__take(0, 8);
    yett__w("{\"name\":"), yett__quoted(spec->name), yett__w(",\"version\":"), yett__quoted(spec->version), yett__w(",\"abi\":1");
    for (uint32_t i = 0; spec->kinds && spec->kinds[i].name; i++) {
        yett__w(i ? ",{\"name\":" : ",\"kinds\":[{\"name\":"), yett__quoted(spec->kinds[i].name);
        yett__w(",\"severity\":"), yett__decimal((uint64_t)spec->kinds[i].severity), yett__w(spec->kinds[i + 1].name ? "}" : "}]");
    }
    if (spec->config) yett__w(",\"config_schema\":"), yett__w(spec->config);
    yett__w(",\"stream\":{\"mode\":"), yett__quoted(modes[spec->stream]);
    if (spec->lookbehind) yett__w(",\"lookbehind\":"), yett__decimal(spec->lookbehind);
    yett__w("},\"needs\":{");
    if (spec->memory_mib) yett__w("\"memory_bytes\":"), yett__decimal((uint64_t)spec->memory_mib << 20);
    if (spec->deadline_ms) yett__w(spec->memory_mib ? ",\"deadline_ms\":" : "\"deadline_ms\":"), yett__decimal(spec->deadline_ms);
    yett__w("}");
    const yett_trigger *t = spec->triggers;
    for (uint32_t i = 0; t && (t[i].literal || t[i].run_of); i++) {
        yett__w(i ? "," : ",\"triggers\":["), yett__trigger(&t[i]);
        if (!t[i + 1].literal && !t[i + 1].run_of) yett__w("]");
    }
    const yett_triggers_from *from = spec->triggers_from;
    for (uint32_t i = 0; from && from[i].path; i++) {
        yett__w(i ? ",{\"path\":" : ",\"triggers_from\":[{\"path\":"), yett__quoted(from[i].path);
        yett__w(from[i].fold ? ",\"fold\":true}" : "}");
        if (!from[i + 1].path) yett__w("]");
    }
    yett__w("}");
    uint32_t n = yett__top - (uint32_t)start;
    yett__top = (uint32_t)start;
    return yett__host_put(1, start, n) ? YETT_INTERNAL : YETT_OK;
}

#define YETT__MODULE(spec) \
    YETT__EXPORT("yett_abi_v1") void yett__export_marker(void) {} \
    YETT__EXPORT("yett_buffer") int32_t yett__export_buffer(int32_t n) { return (int32_t)yett__reserve((uint32_t)n); } \
    YETT__EXPORT("yett_init") int32_t yett__export_init(int32_t n) { return yett__init(&spec, (uint32_t)n); } \
    YETT__EXPORT("yett_describe") int32_t yett__export_describe(void) { return yett__describe(&spec); }
#define YETT__SCAN(spec) \
    YETT__EXPORT("yett_scan") int32_t yett__export_scan(int32_t state, int32_t n, int32_t flags) { \
        return yett__scan(&spec, (uint32_t)state, (uint32_t)n, (uint32_t)flags); }
#define YETT__CHECK(spec) \
    YETT__EXPORT("yett_check") int32_t yett__export_check(int32_t n, int32_t flags) { \
        (void)flags; \
        return yett__check(&spec, (uint32_t)n); }

// One of these, once, makes the module of a spec that is a static const variable.
#define YETT_SCANNER(spec) YETT__MODULE(spec) YETT__SCAN(spec)
#define YETT_AUTHORIZER(spec) YETT__MODULE(spec) YETT__CHECK(spec)
#define YETT_BOTH(spec) YETT__MODULE(spec) YETT__SCAN(spec) YETT__CHECK(spec)

#endif

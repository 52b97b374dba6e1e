/* op_regex.c -- RegexFullMatch: the pattern, read by RE2's rules (regex.c), against every text by PCRE2's breadth-first matcher.
 *
 * That matcher walks all alternatives at once: its effort grows with texts times states, never exponentially. Its room for states is
 * bounded; a pattern that needs more is an error, not a wait. A text that is no UTF-8 matches nothing: no atom but \C takes its bytes.
 */
#include <string.h>

#include "oracle/elementwise.h"
#include "oracle/regex.h"
#include "oracle/text.h"

#ifdef VN_HAS_PCRE2

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "oracle/late.h"

enum { FIRST_ROOM = 1 << 12, MOST_ROOM = 1 << 20, EFFORT = 1 << 24, MOST_PATTERN = 1 << 18 };

static struct {
    __typeof__(&pcre2_compile_8) compile;
    __typeof__(&pcre2_code_free_8) code_free;
    __typeof__(&pcre2_compile_context_create_8) settings_new;
    __typeof__(&pcre2_compile_context_free_8) settings_free;
    __typeof__(&pcre2_set_parens_nest_limit_8) set_nesting;
    __typeof__(&pcre2_match_data_create_8) data_new;
    __typeof__(&pcre2_match_data_free_8) data_free;
    __typeof__(&pcre2_match_context_create_8) limits_new;
    __typeof__(&pcre2_match_context_free_8) limits_free;
    __typeof__(&pcre2_set_match_limit_8) set_effort;
    __typeof__(&pcre2_dfa_match_8) match;
    __typeof__(&pcre2_get_error_message_8) message;
} pcre;

static const vn_late_symbol_t symbols[] = {
    VN_LATE_SYMBOL(pcre, compile, pcre2_compile_8),
    VN_LATE_SYMBOL(pcre, code_free, pcre2_code_free_8),
    VN_LATE_SYMBOL(pcre, settings_new, pcre2_compile_context_create_8),
    VN_LATE_SYMBOL(pcre, settings_free, pcre2_compile_context_free_8),
    VN_LATE_SYMBOL(pcre, set_nesting, pcre2_set_parens_nest_limit_8),
    VN_LATE_SYMBOL(pcre, data_new, pcre2_match_data_create_8),
    VN_LATE_SYMBOL(pcre, data_free, pcre2_match_data_free_8),
    VN_LATE_SYMBOL(pcre, limits_new, pcre2_match_context_create_8),
    VN_LATE_SYMBOL(pcre, limits_free, pcre2_match_context_free_8),
    VN_LATE_SYMBOL(pcre, set_effort, pcre2_set_match_limit_8),
    VN_LATE_SYMBOL(pcre, match, pcre2_dfa_match_8),
    VN_LATE_SYMBOL(pcre, message, pcre2_get_error_message_8),
};
_Static_assert(sizeof symbols / sizeof *symbols == sizeof pcre / sizeof(void *), "every function is looked up");

static vn_late_t library = {.what = "PCRE2",
                            .package = "libpcre2-8-0",
                            .files = {"libpcre2-8.so.0", "libpcre2-8.so"},
                            .symbols = symbols,
                            .n_symbols = sizeof symbols / sizeof *symbols,
                            .lock = PTHREAD_MUTEX_INITIALIZER};

typedef struct matcher {
    pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *limits;
    int *room;
    size_t size;
} matcher_t;

static void matcher_free(matcher_t *m) {
    if (m->data) pcre.data_free(m->data);
    if (m->limits) pcre.limits_free(m->limits);
    if (m->code) pcre.code_free(m->code);
    vn_free(m->room);
}

static vn_status_t compile(vn_eval_t *e, const vn_text_t *pattern, matcher_t *m) {
    int code;
    size_t at;
    pcre2_compile_context *settings = pcre.settings_new(NULL);
    if (settings) {
        pcre.set_nesting(settings, 1000); /* ours are bounded already */
        m->code = pcre.compile((PCRE2_SPTR)pattern->data, pattern->length, PCRE2_UTF | PCRE2_NO_START_OPTIMIZE, &code, &at, settings);
        pcre.settings_free(settings);
        if (!m->code) {
            PCRE2_UCHAR text[160] = "";
            pcre.message(code, text, sizeof text);
            /* The grammar was read already: what is left is an unknown script, or a pattern too large to compile. */
            return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "PCRE2 does not compile the pattern: %s", (const char *)text);
        }
        m->data = pcre.data_new(1, NULL);
        m->limits = pcre.limits_new(NULL);
    }
    m->size = FIRST_ROOM;
    m->room = vn_alloc(m->size, sizeof *m->room);
    if (!settings || !m->data || !m->limits || !m->room) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory to match with");
    pcre.set_effort(m->limits, EFFORT);
    return VN_OK;
}

static vn_status_t match(vn_eval_t *e, matcher_t *m, int64_t i, bool *yes) {
    const vn_string_t *s = vn_text_at(e, 0, i);
    const char *text = s->length ? s->text : "";
    *yes = false;
    if (vn_utf8_valid(text, s->length) < s->length) return VN_OK;
    for (;;) {
        const int rc = pcre.match(m->code, (PCRE2_SPTR)text, s->length, 0, PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK | PCRE2_DFA_SHORTEST,
                                  m->data, m->limits, m->room, m->size);
        *yes = rc >= 0;
        if (rc >= 0 || rc == PCRE2_ERROR_NOMATCH) return VN_OK;
        if (rc != PCRE2_ERROR_DFA_WSSIZE || m->size >= MOST_ROOM) {
            PCRE2_UCHAR why[160] = "";
            pcre.message(rc, why, sizeof why);
            return vn_eval_fail(e, VN_ERR_RANGE, "element %lld takes more effort than a pattern may (%s)", (long long)i, (const char *)why);
        }
        m->size *= 2;
        vn_free(m->room);
        m->room = vn_alloc(m->size, sizeof *m->room);
        if (!m->room) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory to match with");
    }
}

static vn_status_t match_all(vn_eval_t *e, const vn_text_t *pattern) {
    const vn_tensor_t *x = e->in[0].t;
    vn_error_t why;
    if (vn_late_open(&library, &why) != VN_OK) return vn_eval_fail(e, why.status, "%s", why.text);
    matcher_t m = {0};
    vn_status_t s = compile(e, pattern, &m);
    if (s == VN_OK) s = vn_out_exact(e, 0, VN_BOOL, x->rank, x->dims);
    for (int64_t i = 0; s == VN_OK && i < x->count; ++i) {
        bool yes;
        s = match(e, &m, i, &yes);
        ((uint8_t *)e->out[0].tensor->data)[i] = yes;
    }
    matcher_free(&m);
    return s;
}

#else

enum { MOST_PATTERN = 1 << 18 };

static vn_status_t match_all(vn_eval_t *e, const vn_text_t *pattern) {
    (void)pattern;
    return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "built without PCRE2: install Debian package libpcre2-dev and build again");
}

#endif

vn_status_t vn_text_regex(vn_eval_t *e) {
    const vn_attr_t *a = vn_node_attr(e->node, "pattern");
    VN_TRY(vn_text_need(e, 0));
    if (!a || a->kind != VN_ATTR_STRING) return vn_eval_fail(e, VN_ERR_USAGE, "attribute pattern is missing");
    if (a->s.length > MOST_PATTERN) return vn_eval_fail(e, VN_ERR_RANGE, "a pattern of %zu bytes", a->s.length);
    vn_text_t pattern = {0};
    vn_error_t why;
    vn_status_t s = vn_regex_translate(a->s.length ? a->s.text : "", a->s.length, &pattern, &why);
    s = s == VN_OK ? match_all(e, &pattern) : vn_eval_fail(e, s, "%s", why.text);
    vn_text_free(&pattern);
    return s;
}

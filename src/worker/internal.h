/* internal.h -- what the files of this room share: rows of back ends, places of programs, the environment policy, one process, one worker. */
#ifndef VN_WORKER_INTERNAL_H
#define VN_WORKER_INTERNAL_H

#include <jansson.h>

#include "protocol/codec.h"
#include "vernier/worker.h"

/* ---- backends.c: the table ---- */

typedef enum vn_option_kind {
    VN_OPTION_CHOICE, /* one of `choices` (words separated by blanks) */
    VN_OPTION_COUNT,  /* integer >= 1 */
    VN_OPTION_NUMBER, /* integer >= 0 */
    VN_OPTION_FLAG,   /* stands alone, or =1, =0 */
    VN_OPTION_TEXT,   /* not empty */
} vn_option_kind_t;

typedef struct vn_option_row {
    const char *key;
    vn_option_kind_t kind;
    const char *choices;
} vn_option_row_t;

typedef enum vn_backend_form { VN_FORM_MISSING, VN_FORM_PROGRAM, VN_FORM_SCRIPT } vn_backend_form_t;

typedef struct vn_backend_row {
    const vn_backend_info_t *info;
    vn_backend_form_t form;
    const char *file;    /* program (vernier-worker-NAME) or Python script */
    const char *module;  /* folder in site-packages that must be there, or NULL */
    const char *devices; /* words, or NULL: the worker decides */
    const vn_option_row_t *options;
    int n_options;
    bool properties;     /* takes any KEY=VALUE in capitals */
    bool own_code;       /* nothing but our code in the process: sanitizer settings may pass */
    bool wide_addresses; /* maps far more than it uses: no RLIMIT_AS */
} vn_backend_row_t;

const vn_backend_row_t *vn_backend_row(const char *name); /* canonical name or alias; NULL */

/** The value of an option of the spec; NULL if it is not given. */
const char *vn_spec_option(const vn_spec_t *spec, const char *key);

/* ---- locate.c ---- */

typedef struct vn_place {
    char program[4096];     /* what is executed: worker or interpreter */
    char script[4096];      /* "" for C workers */
    char environment[4096]; /* root of the Python environment, "" for C workers that need none */
} vn_place_t;
vn_status_t vn_locate(const vn_spec_t *spec, const vn_backend_row_t *row, vn_place_t *out, vn_error_t *err);

/* ---- policy.c ---- */

/** envp: NULL-terminated, release with vn_policy_free; json: release with vn_free. */
vn_status_t vn_policy_build(const vn_spec_t *spec, const vn_backend_row_t *row, int threads, char ***envp, char **json, vn_error_t *err);
void vn_policy_free(char **envp);

/* ---- process.c: one child and its group ---- */

typedef struct vn_process vn_process_t;

typedef struct vn_process_options {
    char *const *argv;
    char *const *envp;
    const char *label; /* "back end mutant" */
    int64_t memory_bytes;
    bool address_limit;
} vn_process_options_t;

vn_status_t vn_process_start(const vn_process_options_t *o, vn_process_t **out, vn_error_t *err);
/**
 * Sends one line (with its line feed) and waits for one. *reply is valid until the next call.
 * Errors     CRASHED, TIMEOUT, MEMORY_LIMIT, PARSE (line too long), NOMEM. The group is dead then; only vn_process_free is left to do.
 */
vn_status_t vn_process_ask(vn_process_t *p, const char *line, size_t n, double timeout_s, const char *what, char **reply, size_t *length,
                           vn_error_t *err);
/** Appends "; last line of its log: ..." to err, if there is one. */
void vn_process_add_log(vn_process_t *p, vn_error_t *err);
/** Waits up to `grace_s` for the end of the process. */
void vn_process_wait(vn_process_t *p, double grace_s);
int64_t vn_process_peak(vn_process_t *p);
void vn_process_free(vn_process_t *p); /* kills the group; NULL is fine */

/* ---- memory.c: resident sizes from /proc ---- */

/** Sum over all processes of the group; 0 if none is left. */
int64_t vn_group_resident(int group);
/** High-water mark of one process, 0 if it is gone. */
int64_t vn_process_high_water(int pid);

/* ---- segments.c: names and lives of shared memory on the host's side ---- */

/** "/vernier-NS-PID-K": unique on this machine while the process lives. */
void vn_segment_prefix(char out[40]);
/** Unlinks what processes that are no more have left behind (prefix NULL), or everything under `prefix`. */
void vn_segment_sweep(const char *prefix);

typedef struct vn_segment {
    vn_shm_t shm;
    int refs; /* atomic */
} vn_segment_t;
/** Takes over *shm (also on failure). NULL: no memory. */
vn_segment_t *vn_segment_new(vn_shm_t *shm);
void vn_segment_retain(vn_segment_t *s);
void vn_segment_release(void *s);

/* ---- worker.c ---- */

struct vn_worker {
    vn_spec_t spec;
    const vn_backend_row_t *row;
    vn_place_t place;
    double timeout_s;
    int64_t memory_bytes;
    int threads;
    char *cache;
    vn_process_t *process; /* NULL: to be started by the next call */
    char *identity, *environment;
    int64_t next_id, next_session, next_segment, peak;
    int64_t *sessions; /* open ones */
    int n_sessions, session_room, restarts;
    bool launched;
    char prefix[40];
    vn_shm_t input; /* reused from run to run, grows */
};

/** Sends `rq` (a reference is taken over), checks id and ok. *reply: release with json_decref. A dead or babbling worker is dropped. */
vn_status_t vn_worker_ask(vn_worker_t *w, json_t *rq, const char *what, json_t **reply, vn_error_t *err);
/** Kills the process and forgets its sessions; the next call starts another. */
void vn_worker_drop(vn_worker_t *w);
bool vn_worker_has_session(const vn_worker_t *w, int64_t session);
void vn_worker_segment_name(vn_worker_t *w, char out[64]);

/* ---- run.c ---- */

/** What the host has laid out for the outputs of one run. */
typedef struct vn_output_place {
    bool host; /* false: open */
    vn_desc_t desc;
} vn_output_place_t;

/**
 * Checks and decodes the reply of a run into outputs[n] (zeroed by the caller; on failure the caller releases them).
 * `outputs_segment` may be NULL when nothing was host-allocated. `prefix`: names of segments that the worker may hand over.
 */
vn_status_t vn_run_decode(const json_t *reply, const char *prefix, int n, const vn_output_spec_t *specs, const vn_output_place_t *places,
                          vn_segment_t *outputs_segment, vn_output_t *outputs, vn_error_t *err);

#endif

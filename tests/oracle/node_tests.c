/* node_tests.c -- the whole ONNX backend suite against the oracle.
 *
 *   node_tests [-j N] [-t SECONDS] [-e EXCEPTIONS.tsv] [-o TEXT] FOLDER
 *
 * FOLDER was written by node_tests.py: cases.txt lists the cases. Cases run in a pool of child processes, so that a crash or a hang is one
 * failing case, named, and the others go on. EXCEPTIONS.tsv: CASE<TAB>REASON a line, # begins a comment; a listed case must fail. A third
 * column N says that its inputs and expected values are literals of N decimals: half a unit of the last for either, they must still be right.
 * -o TEXT runs only the cases whose name holds TEXT (then the exceptions among the others are not looked at).
 * Prints a line for each failing case, and a closing line. Exit: 0 as it should be, 1 not, 2 nothing to run.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "oracle/node_check.h"

enum { MAX_JOBS = 64, MAX_EXCEPTIONS = 15 };

typedef struct slot {
    int state; /* node_state_t; -1 not run yet, -2 running, -3 crashed, -4 hung */
    double seconds;
    int how;           /* signal or exit status of a crash */
    bool open;         /* some element without a bound */
    bool right_digits; /* of a listed case: right to the digits that the literals have */
    int64_t undefined;
    char failure[1400];
} slot_t;
enum { NOT_RUN = -1, RUNNING = -2, CRASHED = -3, HUNG = -4 };

/* Shared by the pool: who takes the next case, and what came of each. */
typedef struct board {
    int next; /* atomic */
    struct {
        int at; /* case under way, -1: none */
        double since;
    } job[MAX_JOBS];
    slot_t slot[];
} board_t;

typedef struct suite {
    const char *folder;
    const char *program; /* folder of this program, for the rerun line */
    char **names;
    int count, jobs;
    double limit;
    board_t *board;
    int *decimals;        /* per case, 0: none */
    char *list, *reasons; /* texts of the two files: names and reasons point into them */
} suite_t;

typedef struct exception {
    char *name, *reason;
    int at; /* index of the case, -1: not there */
} exception_t;

/* ---- lists ---- */

static char *slurp(const char *path) {
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    size_t n = 0, room = 0;
    if (!f) return NULL;
    for (;;) {
        if (n + 4096 + 1 > room) {
            char *grown = realloc(text, room = 2 * room + 8192);
            if (!grown) break;
            text = grown;
        }
        const size_t got = fread(text + n, 1, room - n - 1, f);
        n += got;
        if (got == 0) break;
    }
    fclose(f);
    if (text) text[n] = 0;
    return text;
}

static bool read_cases(suite_t *s, const char *only) {
    char path[2000];
    snprintf(path, sizeof path, "%s/cases.txt", s->folder);
    char *text = s->list = slurp(path), *save = NULL;
    if (!text) {
        fprintf(stderr, "node_tests: %s: %s; write the cases with tests/oracle/node_tests.py %s\n", path, strerror(errno), s->folder);
        return false;
    }
    size_t lines = 1;
    for (const char *p = text; *p; ++p) lines += *p == '\n';
    s->names = calloc(lines, sizeof *s->names);
    for (char *line = strtok_r(text, "\n", &save); line && s->names; line = strtok_r(NULL, "\n", &save))
        if (!only || strstr(line, only)) s->names[s->count++] = line;
    if (!s->count) fprintf(stderr, "node_tests: %s names no case%s\n", path, only ? " of that name" : "");
    return s->count > 0;
}

static int find_case(const suite_t *s, const char *name) {
    for (int i = 0; i < s->count; ++i)
        if (strcmp(s->names[i], name) == 0) return i;
    return -1;
}

/* false: unreadable, malformed, too long. */
static bool read_exceptions(suite_t *s, const char *path, exception_t *list, int *n) {
    char *text = s->reasons = slurp(path), *save = NULL;
    *n = 0;
    if (!text) {
        fprintf(stderr, "node_tests: %s: %s\n", path, strerror(errno));
        return false;
    }
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (*line == '#') continue;
        char *tab = strchr(line, '\t');
        if (!tab || tab == line || strlen(tab + 1) < 20 || *n == MAX_EXCEPTIONS) {
            fprintf(stderr, "node_tests: %s: '%.60s': %s\n", path, line,
                    *n == MAX_EXCEPTIONS ? "more than 15 exceptions" : "a line is CASE<TAB>REASON, the reason a sentence");
            return false;
        }
        *tab = 0;
        char *digits = strchr(tab + 1, '\t');
        const int at = find_case(s, line);
        if (digits) *digits++ = 0;
        if (digits && at >= 0) s->decimals[at] = atoi(digits);
        list[(*n)++] = (exception_t){line, tab + 1, at};
    }
    return true;
}

/* ---- the pool ---- */

static void work(const suite_t *s, int job) {
    board_t *b = s->board;
    char path[2000];
    vn_threads_set(1);
    for (;;) {
        const int i = __atomic_fetch_add(&b->next, 1, __ATOMIC_ACQ_REL);
        if (i >= s->count) return;
        node_report_t report = {0};
        slot_t *slot = &b->slot[i];
        b->job[job].since = vn_now();
        slot->state = RUNNING;
        __atomic_store_n(&b->job[job].at, i, __ATOMIC_RELEASE);
        snprintf(path, sizeof path, "%s/%s", s->folder, s->names[i]);
        node_check_folder(path, &report);
        slot->seconds = vn_now() - b->job[job].since;
        memcpy(slot->failure, report.failure, sizeof slot->failure);
        slot->undefined = report.undefined;
        slot->open = report.open;
        if (report.state == NODE_OUTSIDE && s->decimals[i] > 0) {
            node_report_t again = {.decimals = s->decimals[i]};
            node_check_folder(path, &again);
            slot->right_digits = again.state == NODE_INSIDE;
        }
        slot->state = (int)report.state;
        __atomic_store_n(&b->job[job].at, -1, __ATOMIC_RELEASE);
    }
}

static pid_t start(const suite_t *s, int job) {
    fflush(NULL);
    s->board->job[job].at = -1;
    const pid_t pid = fork();
    if (pid != 0) return pid;
    work(s, job);
    exit(0); /* not _exit: a leak found at exit is a failure of the job */
}

/* A child is gone: the case under way, if any, failed with it. Without one, a bad exit (a leak, say) is the pool's own failure. */
static bool ended(const suite_t *s, int job, int how, bool hung) {
    const int at = __atomic_load_n(&s->board->job[job].at, __ATOMIC_ACQUIRE);
    if (at >= 0) {
        s->board->slot[at].state = hung ? HUNG : CRASHED;
        s->board->slot[at].how = how;
        s->board->slot[at].seconds = vn_now() - s->board->job[job].since;
        return true;
    }
    if (how) fprintf(stderr, "node_tests: a job ended with status 0x%x after its cases\n", (unsigned)how);
    return how == 0;
}

static bool run_pool(const suite_t *s) {
    pid_t pid[MAX_JOBS];
    int alive = 0;
    bool good = true;
    for (int j = 0; j < s->jobs; ++j) alive += (pid[j] = start(s, j)) > 0;
    if (!alive) fprintf(stderr, "node_tests: fork: %s\n", strerror(errno));
    good = alive > 0;
    while (alive) {
        const struct timespec nap = {0, 20 * 1000 * 1000};
        nanosleep(&nap, NULL);
        for (int j = 0; j < s->jobs; ++j) {
            int how = 0;
            if (pid[j] <= 0) continue;
            const int at = __atomic_load_n(&s->board->job[j].at, __ATOMIC_ACQUIRE);
            const bool hung = at >= 0 && vn_now() - s->board->job[j].since > s->limit;
            if (hung) kill(pid[j], SIGKILL);
            if (waitpid(pid[j], &how, hung ? 0 : WNOHANG) != pid[j]) continue;
            good &= ended(s, j, how, hung);
            pid[j] = s->board->next < s->count ? start(s, j) : 0;
            if (pid[j] <= 0) --alive;
        }
    }
    return good;
}

/* ---- the result ---- */

static bool passed(const slot_t *slot) { return slot->state == NODE_INSIDE || slot->state == NODE_RANDOM; }

static void print_failure(const suite_t *s, int i, const char *note) {
    const slot_t *slot = &s->board->slot[i];
    char what[1500];
    if (slot->state == CRASHED)
        snprintf(what, sizeof what, "crashed (%s %d)", WIFSIGNALED(slot->how) ? "signal" : "exit status",
                 WIFSIGNALED(slot->how) ? WTERMSIG(slot->how) : WEXITSTATUS(slot->how));
    else if (slot->state == HUNG) snprintf(what, sizeof what, "no answer within %g s", s->limit);
    else if (slot->state < 0) snprintf(what, sizeof what, "not run");
    else snprintf(what, sizeof what, "%s: %.1400s", node_state_name((node_state_t)slot->state), slot->failure);
    printf("%s%s: %s; rerun: %s/node_case %s/%s\n", note, s->names[i], what, s->program, s->folder, s->names[i]);
}

static int summary(const suite_t *s, const exception_t *list, int n, bool whole) {
    int inside = 0, random = 0, listed = 0, bad = 0;
    for (int i = 0; i < s->count; ++i) {
        const slot_t *slot = &s->board->slot[i];
        const exception_t *reason = NULL;
        for (int k = 0; k < n; ++k)
            if (list[k].at == i) reason = &list[k];
        inside += passed(slot);
        random += slot->state == NODE_RANDOM;
        listed += reason != NULL && !passed(slot);
        if (reason && passed(slot)) {
            ++bad;
            printf("%s: passes, but stands on the list of exceptions: %s\n", s->names[i], reason->reason);
        } else if (reason && (slot->state != NODE_OUTSIDE || (s->decimals[i] > 0 && !slot->right_digits))) {
            ++bad; /* the list is for wrong expected values, not for ours that are missing or wrong */
            print_failure(s, i, slot->state == NODE_OUTSIDE ? "wrong in the digits that its literals have: " : "");
        } else if (reason) {
            print_failure(s, i, "on the list: ");
        } else if (!passed(slot)) {
            ++bad;
            print_failure(s, i, "");
        }
    }
    for (int k = 0; k < n && whole; ++k)
        if (list[k].at < 0) {
            ++bad;
            printf("%s: stands on the list of exceptions, but there is no such case\n", list[k].name);
        }
    double slowest = 0, sum = 0;
    int64_t undefined = 0;
    int which = 0, open = 0;
    for (int i = 0; i < s->count; ++i) {
        sum += s->board->slot[i].seconds;
        undefined += s->board->slot[i].undefined;
        open += passed(&s->board->slot[i]) && s->board->slot[i].open;
        if (s->board->slot[i].seconds > slowest) slowest = s->board->slot[which = i].seconds;
    }
    printf("slowest %.2f s of %.1f s: %s\n", slowest, sum, s->names[which]);
    printf("%d cases hold elements without a bound, right as the rounded value itself; %lld elements are left undefined by the standard\n",
           open, (long long)undefined);
    printf("node tests: %d of %d inside, of which %d random, %d on the reasoned list\n", inside, s->count, random, listed);
    return bad ? 1 : 0;
}

int main(int argc, char **argv) {
    suite_t s = {.jobs = (int)sysconf(_SC_NPROCESSORS_ONLN), .limit = 400};
    const char *exceptions = NULL, *only = NULL;
    exception_t list[MAX_EXCEPTIONS];
    int n = 0, option;
    while ((option = getopt(argc, argv, "j:t:e:o:")) != -1) {
        if (option == 'j') s.jobs = atoi(optarg);
        else if (option == 't') s.limit = atof(optarg);
        else if (option == 'e') exceptions = optarg;
        else if (option == 'o') only = optarg;
        else return 2;
    }
    if (argc - optind != 1 || !(s.limit > 0)) {
        fprintf(stderr, "node_tests: usage: [-j JOBS] [-t SECONDS] [-e EXCEPTIONS.tsv] [-o TEXT] FOLDER\n");
        return 2;
    }
    s.jobs = s.jobs < 1 ? 1 : s.jobs > MAX_JOBS ? MAX_JOBS : s.jobs;
    s.folder = argv[optind];
    char *slash = strrchr(argv[0], '/');
    if (slash) *slash = 0;
    s.program = slash ? argv[0] : ".";
    int status = 2;
    const bool ready = read_cases(&s, only) && (s.decimals = calloc((size_t)s.count, sizeof *s.decimals)) != NULL &&
                       (!exceptions || read_exceptions(&s, exceptions, list, &n));
    const size_t bytes = sizeof *s.board + (size_t)s.count * sizeof *s.board->slot;
    s.board = ready ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    if (s.board != MAP_FAILED) {
        for (int i = 0; i < s.count; ++i) s.board->slot[i].state = NOT_RUN;
        const bool pool = run_pool(&s);
        status = summary(&s, list, n, !only) || !pool;
        munmap(s.board, bytes);
    }
    free(s.names);
    free(s.decimals);
    free(s.list);
    free(s.reasons);
    return status;
}

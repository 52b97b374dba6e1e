/* process.c -- one child in its own group: started, asked line by line, limited in time and memory, ended, and explained when it ends itself.
 *
 * Every process has a keeper thread. It forks (PR_SET_PDEATHSIG fires when the thread that forked ends, so that thread must live as
 * long as the child) and then drains the child's standard error into a ring, so that a talkative library never blocks.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker/internal.h"

enum { LOG_BYTES = 8192, POLL_MS = 50, MIN_FD = 3 };
static const int64_t address_slack = (int64_t)4 << 30; /* of RLIMIT_AS over the resident limit: code, mapped files, reserved heaps */

struct vn_process {
    vn_process_options_t o; /* argv and envp are the starter's: only until the fork */
    char label[64];
    pid_t pid;
    int to, from; /* socket to the child's 0, pipe from its 1 */
    int child_in, child_out, child_log;
    int log, wake[2]; /* pipe from its 2; ends the keeper */
    int exec_error;   /* errno of fork or exec, 0 = running */
    bool dead, keeper_runs;
    vn_lines_t lines;
    int64_t peak;
    double next_look, look_interval;
    pthread_t keeper;
    sem_t started;
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t log_ended;
    bool log_done;
    char ring[LOG_BYTES];
    size_t logged; /* bytes ever written to the ring */
};

/* ---- the child, between fork and exec: async-signal-safe calls only ---- */

static _Noreturn void become_worker(const vn_process_t *p, pid_t host, int error_fd) {
    sigset_t none;
    sigemptyset(&none);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != host) _exit(127); /* the host died before prctl */
    signal(SIGPIPE, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core); /* a crash is reported by signal; the dump of a big library would take seconds */
    if (p->o.memory_bytes > 0 && p->o.address_limit) {
        const struct rlimit as = {(rlim_t)(p->o.memory_bytes + address_slack), (rlim_t)(p->o.memory_bytes + address_slack)};
        setrlimit(RLIMIT_AS, &as);
    }
    int why = 0;
    if (dup2(p->child_in, 0) < 0 || dup2(p->child_out, 1) < 0 || dup2(p->child_log, 2) < 0) why = errno;
    if (!why) {
#ifdef SYS_close_range
        syscall(SYS_close_range, 3u, ~0u, 4u /* CLOSE_RANGE_CLOEXEC: error_fd must survive until exec */);
#endif
        execve(p->o.argv[0], p->o.argv, p->o.envp);
        why = errno;
    }
    ssize_t n = write(error_fd, &why, sizeof why);
    (void)n;
    _exit(127);
}

/* ---- the keeper ---- */

static void fork_child(vn_process_t *p) {
    int report[2];
    if (pipe2(report, O_CLOEXEC) != 0) {
        p->exec_error = errno;
        return;
    }
    const pid_t host = getpid();
    p->pid = fork();
    if (p->pid == 0) become_worker(p, host, report[1]);
    if (p->pid < 0) p->exec_error = errno;
    close(report[1]);
    if (p->pid > 0) {
        setpgid(p->pid, p->pid); /* here too: whoever comes first */
        ssize_t n;
        do n = read(report[0], &p->exec_error, sizeof p->exec_error);
        while (n < 0 && errno == EINTR);
        if (n != (ssize_t)sizeof p->exec_error) p->exec_error = 0;
    }
    close(report[0]);
}

static void keep_log(vn_process_t *p) {
    char chunk[4096];
    struct pollfd fds[2] = {{.fd = p->log, .events = POLLIN}, {.fd = p->wake[0], .events = POLLIN}};
    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR) break;
        if (fds[0].revents) {
            const ssize_t n = read(p->log, chunk, sizeof chunk);
            if (n < 0 && errno == EINTR) continue;
            pthread_mutex_lock(&p->mutex);
            for (ssize_t i = 0; i < n; ++i) p->ring[p->logged++ % LOG_BYTES] = chunk[i];
            if (n <= 0) {
                fds[0].fd = -1; /* ended: wait for the wake-up alone */
                p->log_done = true;
                pthread_cond_signal(&p->log_ended);
            }
            pthread_mutex_unlock(&p->mutex);
        }
        if (fds[1].revents) break;
    }
}

static void *keep(void *arg) {
    vn_process_t *p = arg;
    fork_child(p);
    const bool running = p->pid > 0;
    close(p->child_in);
    close(p->child_out);
    close(p->child_log);
    p->child_in = p->child_out = p->child_log = -1;
    sem_post(&p->started);
    if (running) keep_log(p);
    return NULL;
}

/* ---- start ---- */

static int raise_fd(int fd) { /* a host with closed standard descriptors must not confuse dup2 in the child */
    if (fd >= MIN_FD || fd < 0) return fd;
    const int up = fcntl(fd, F_DUPFD_CLOEXEC, MIN_FD);
    close(fd);
    return up;
}

static bool open_channels(vn_process_t *p) {
    int s[2], out[2], log[2], wake[2];
    p->to = p->from = p->child_in = p->child_out = p->child_log = p->log = p->wake[0] = p->wake[1] = -1;
    /* A socket towards the child: MSG_NOSIGNAL keeps SIGPIPE away from the host, whatever its disposition. */
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s) != 0) return false;
    p->to = raise_fd(s[0]);
    p->child_in = raise_fd(s[1]);
    if (pipe2(out, O_CLOEXEC) != 0) return false;
    p->from = raise_fd(out[0]);
    p->child_out = raise_fd(out[1]);
    if (pipe2(log, O_CLOEXEC) != 0) return false;
    p->log = raise_fd(log[0]);
    p->child_log = raise_fd(log[1]);
    if (pipe2(wake, O_CLOEXEC) != 0) return false;
    p->wake[0] = raise_fd(wake[0]);
    p->wake[1] = raise_fd(wake[1]);
    if (p->to < 0 || p->child_in < 0 || p->from < 0 || p->child_out < 0 || p->log < 0 || p->child_log < 0 || p->wake[0] < 0 ||
        p->wake[1] < 0)
        return false;
    return fcntl(p->from, F_SETFL, O_NONBLOCK) == 0;
}

static void close_fd(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

vn_status_t vn_process_start(const vn_process_options_t *o, vn_process_t **out, vn_error_t *err) {
    *out = NULL;
    vn_process_t *p = vn_alloc(1, sizeof *p);
    if (!p) return vn_fail(err, VN_ERR_NOMEM, "%s: out of memory", o->label);
    p->o = *o;
    snprintf(p->label, sizeof p->label, "%s", o->label);
    p->pid = -1;
    sem_init(&p->started, 0, 0);
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->log_ended, NULL);
    vn_status_t s = VN_OK;
    if (!open_channels(p)) {
        s = vn_fail(err, VN_ERR_IO, "%s: cannot open its pipes: %s", p->label, strerror(errno));
    } else {
        sigset_t all, old;
        sigfillset(&all); /* signals of the host are not the keeper's business */
        pthread_sigmask(SIG_SETMASK, &all, &old);
        const int why = pthread_create(&p->keeper, NULL, keep, p);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        if (why) s = vn_fail(err, VN_ERR_IO, "%s: cannot start a thread: %s", p->label, strerror(why));
        else p->keeper_runs = true;
    }
    if (s == VN_OK) {
        while (sem_wait(&p->started) != 0) {}
        if (p->exec_error) s = vn_fail(err, VN_ERR_NOTFOUND, "%s: cannot start %s: %s", p->label, o->argv[0], strerror(p->exec_error));
    }
    if (s != VN_OK) {
        vn_process_free(p);
        return s;
    }
    p->look_interval = POLL_MS / 1000.0;
    *out = p;
    return VN_OK;
}

/* ---- the end ---- */

/* True once the leader is a zombie; it is not reaped yet, so that its number still names the group. */
static bool has_ended(const vn_process_t *p, siginfo_t *info) {
    memset(info, 0, sizeof *info);
    return waitid(P_PID, (id_t)p->pid, info, WEXITED | WNOWAIT | WNOHANG) != 0 || info->si_pid != 0;
}

void vn_process_wait(vn_process_t *p, double grace_s) {
    siginfo_t info;
    const double until = vn_now() + grace_s;
    while (!p->dead && !has_ended(p, &info) && vn_now() < until) usleep(500);
}

/* Kills what is left of the group and reaps the leader. */
static void end_group(vn_process_t *p) {
    if (p->dead || p->pid <= 0) return;
    p->dead = true;
    kill(-p->pid, SIGKILL);
    struct rusage usage = {0};
    int status;
    while (wait4(p->pid, &status, 0, &usage) < 0 && errno == EINTR) {}
    const int64_t peak = (int64_t)usage.ru_maxrss * 1024;
    if (peak > p->peak) p->peak = peak;
}

void vn_process_free(vn_process_t *p) {
    if (!p) return;
    end_group(p);
    if (p->keeper_runs) {
        close_fd(&p->wake[1]); /* end of file is the wake-up */
        pthread_join(p->keeper, NULL);
    }
    close_fd(&p->to);
    close_fd(&p->from);
    close_fd(&p->log);
    close_fd(&p->wake[0]);
    close_fd(&p->wake[1]);
    close_fd(&p->child_in);
    close_fd(&p->child_out);
    close_fd(&p->child_log);
    vn_lines_free(&p->lines);
    sem_destroy(&p->started);
    pthread_mutex_destroy(&p->mutex);
    pthread_cond_destroy(&p->log_ended);
    vn_free(p);
}

/* The last non-empty line of the log. Waits a moment for what a dying process wrote. */
static void last_log_line(vn_process_t *p, char *out, size_t size) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 200 * 1000000L;
    if (until.tv_nsec >= 1000000000L) until.tv_nsec -= 1000000000L, ++until.tv_sec;
    pthread_mutex_lock(&p->mutex);
    while (p->dead && !p->log_done && pthread_cond_timedwait(&p->log_ended, &p->mutex, &until) == 0) {}
    size_t end = p->logged, begin = end > LOG_BYTES ? end - LOG_BYTES : 0;
    while (end > begin && strchr("\n\r \t", p->ring[(end - 1) % LOG_BYTES])) --end;
    size_t from = end;
    while (from > begin && p->ring[(from - 1) % LOG_BYTES] != '\n') --from;
    if (end - from > size - 1) from = end - (size - 1);
    size_t n = 0;
    for (; from < end; ++from) out[n++] = p->ring[from % LOG_BYTES];
    out[n] = '\0';
    pthread_mutex_unlock(&p->mutex);
}

void vn_process_add_log(vn_process_t *p, vn_error_t *err) {
    if (!err) return;
    char line[300], old[sizeof err->text];
    last_log_line(p, line, sizeof line);
    if (!line[0]) return;
    memcpy(old, err->text, sizeof old);
    vn_fail(err, err->status, "%.280s; last line of its log: %s", old, line);
}

static vn_status_t explain_end(vn_process_t *p, const char *what, vn_error_t *err) {
    siginfo_t info;
    vn_process_wait(p, 2.0);
    if (!has_ended(p, &info)) vn_fail(err, VN_ERR_CRASHED, "%s closed its reply channel during %s", p->label, what);
    else if (info.si_pid == 0)
        vn_fail(err, VN_ERR_CRASHED, "%s ended during %s; the host ignores SIGCHLD, so nobody knows how", p->label, what);
    else if (info.si_code == CLD_EXITED)
        vn_fail(err, VN_ERR_CRASHED, "%s ended with exit status %d during %s", p->label, info.si_status, what);
    else
        vn_fail(err, VN_ERR_CRASHED, "%s was ended by signal SIG%s (%s) during %s%s", p->label,
                sigabbrev_np(info.si_status) ? sigabbrev_np(info.si_status) : "?", strsignal(info.si_status), what,
                info.si_status == SIGKILL ? "; the system's out-of-memory killer does that" : "");
    end_group(p);
    vn_process_add_log(p, err);
    return VN_ERR_CRASHED;
}

/* ---- memory ---- */

static vn_status_t look_at_memory(vn_process_t *p, const char *what, vn_error_t *err) {
    const double begin = vn_now();
    const int64_t now = vn_group_resident((int)p->pid);
    if (now > p->peak) p->peak = now;
    const double cost = vn_now() - begin; /* /proc may list thousands of processes: never more than 5 % of the time */
    p->look_interval = cost * 20 > POLL_MS / 1000.0 ? cost * 20 : POLL_MS / 1000.0;
    p->next_look = vn_now() + p->look_interval;
    if (p->o.memory_bytes <= 0 || now <= p->o.memory_bytes) return VN_OK;
    end_group(p);
    vn_fail(err, VN_ERR_MEMORY_LIMIT, "%s grew to %.0f MiB during %s, the limit is %.0f MiB (--memory)", p->label, (double)now / 0x1p20,
            what, (double)p->o.memory_bytes / 0x1p20);
    return VN_ERR_MEMORY_LIMIT;
}

int64_t vn_process_peak(vn_process_t *p) {
    const int64_t now = p->dead ? 0 : vn_process_high_water((int)p->pid);
    if (now > p->peak) p->peak = now;
    return p->peak;
}

/* A spike between two looks counts as well: the verdict must not depend on when the host looked. */
static vn_status_t check_high_water(vn_process_t *p, const char *what, vn_error_t *err) {
    if (p->o.memory_bytes <= 0) return VN_OK;
    const int64_t peak = vn_process_peak(p);
    if (peak <= p->o.memory_bytes) return VN_OK;
    end_group(p);
    return vn_fail(err, VN_ERR_MEMORY_LIMIT, "%s grew to %.0f MiB during %s, the limit is %.0f MiB (--memory)", p->label,
                   (double)peak / 0x1p20, what, (double)p->o.memory_bytes / 0x1p20);
}

/* ---- asking ---- */

/* Sends what the socket takes. False: the child closed its end. */
static bool send_some(vn_process_t *p, const char **line, size_t *n) {
    const ssize_t k = send(p->to, *line, *n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (k > 0) {
        *line += k;
        *n -= (size_t)k;
        return true;
    }
    return errno == EAGAIN || errno == EINTR;
}

/* Reads what is there. Sets *line when one is whole; *closed at end of file. */
static vn_status_t receive_some(vn_process_t *p, const char *what, char **line, size_t *length, bool *closed, vn_error_t *err) {
    const long got = vn_lines_fill(&p->lines, p->from);
    if (p->lines.too_long || p->lines.failed) {
        const bool long_line = p->lines.too_long;
        end_group(p);
        if (!long_line) return vn_fail(err, VN_ERR_NOMEM, "%s: out of memory for its reply to %s", p->label, what);
        return vn_fail(err, VN_ERR_PARSE, "%s: reply to %s: a line of more than %d bytes", p->label, what, VN_MAX_LINE);
    }
    *closed = got == 0;
    *line = vn_lines_take(&p->lines, length);
    return VN_OK;
}

vn_status_t vn_process_ask(vn_process_t *p, const char *line, size_t n, double timeout_s, const char *what, char **reply, size_t *length,
                           vn_error_t *err) {
    *reply = NULL;
    if (p->dead) return vn_fail(err, VN_ERR_CRASHED, "%s is not running", p->label);
    const double deadline = vn_now() + timeout_s;
    p->next_look = vn_now() + p->look_interval;
    bool open = send_some(p, &line, &n), closed = false;
    while (!*reply) {
        *reply = vn_lines_take(&p->lines, length);
        if (*reply) break;
        if (closed) return explain_end(p, what, err);
        const double now = vn_now(), wait = (deadline < p->next_look ? deadline : p->next_look) - now;
        struct pollfd fds[2] = {{.fd = p->from, .events = POLLIN}, {.fd = open && n > 0 ? p->to : -1, .events = POLLOUT}};
        poll(fds, 2, wait > 0 ? (int)(wait * 1000) + 1 : 0);
        if (fds[0].revents) VN_TRY(receive_some(p, what, reply, length, &closed, err));
        if (fds[1].revents) open = send_some(p, &line, &n);
        if (*reply) break;
        if (vn_now() >= p->next_look) VN_TRY(look_at_memory(p, what, err));
        if (vn_now() >= deadline) {
            end_group(p);
            vn_fail(err, VN_ERR_TIMEOUT, "%s did not answer %s within %g s (--timeout)", p->label, what, timeout_s);
            vn_process_add_log(p, err);
            return VN_ERR_TIMEOUT;
        }
    }
    return check_high_water(p, what, err);
}

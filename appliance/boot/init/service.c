/* SPDX-License-Identifier: MIT */
/*
 * What: the appliance as a service of the machine (appliance/boot/init/service.h).
 * Invariant: a child has no privilege: its user has no rights, and no system call gives it another.
 */
#include "appliance/boot/init/service.h"

#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "appliance/boot/exit.h"
#include "appliance/log.h"

#define PROGRAM        "/proc/self/exe"
#define CONFIG         "/etc/agentix.ini"
#define SERVICE_USER   65534
#define DESCRIPTORS    (1 << 20)        /* fs.nr_open of a kernel that was told nothing */
#define REPORTS        "agentix-init"   /* an abstract address */
#define WATCHDOG_MS    30000
#define PAUSE_MS       1000             /* before it is started again */
#define WORDS_MAX      64
#define TEST_MEMORY    "16MiB"          /* its patterns: the rest waits for --selftest=full */

/* ---- the child ---- */

static void drop_privileges(void)
{
    setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){DESCRIPTORS, DESCRIPTORS});
    if (setgroups(0, NULL) != 0 || setgid(SERVICE_USER) != 0 || setuid(SERVICE_USER) != 0) {
        log_event(LOG_ERROR, "another user: %s", strerror(errno));
        _exit(BOOT_EXIT_SYSTEM);
    }
}

static _Noreturn void become(char **options, bool is_test)
{
    static char name[] = "agentix", config[] = "--config", path[] = CONFIG;
    static char test[] = "--selftest=quick", memory[] = "--selftest-memory", bytes[] = TEST_MEMORY;
    static char reports[] = "NOTIFY_SOCKET=@" REPORTS, watchdog[] = "WATCHDOG_USEC=30000000";
    char *environment[] = {reports, watchdog, NULL};
    char *words[WORDS_MAX + 8] = {name, config, path};
    uint32_t count = 3;
    sigset_t none;
    for (uint32_t i = 0; options[i] != NULL && i < WORDS_MAX; i++) {
        words[count++] = options[i];
    }
    if (is_test) {
        words[count++] = test;
        words[count++] = memory;
        words[count++] = bytes;
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    drop_privileges();
    execve(PROGRAM, words, environment);
    log_event(LOG_ERROR, PROGRAM ": %s", strerror(errno));
    _exit(BOOT_EXIT_SYSTEM);
}

static void start(struct service *service)
{
    service->is_ready = service->is_loading = false;
    service->pid = fork();
    if (service->pid == 0) {
        become(service->options, !service->is_tested);
    }
    if (service->pid < 0) {
        log_event(LOG_ERROR, "fork: %s: tried again", strerror(errno));
        service->pid = 0;
    }
}

/* ---- its manager ---- */

void service_open(struct service *service, char **options)
{
    const char *test = getenv("selftest");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path + 1, REPORTS, strlen(REPORTS));
    *service = (struct service){.options = options,
                                .is_tested = test != NULL && strcmp(test, "none") == 0};
    service->reports = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (bind(service->reports, (const struct sockaddr *)&address,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(REPORTS))) != 0) {
        log_event(LOG_ERROR, "reports: %s", strerror(errno));
    }
    start(service);
}

/* Copies what follows `name` in its line. False when there is no such line. */
static bool read_line(const char *text, const char *name, char status[SERVICE_STATUS_BYTES])
{
    const char *at = strstr(text, name);
    if (at == NULL) {
        return false;
    }
    at += strlen(name);
    size_t length = strcspn(at, "\n");
    length = length < SERVICE_STATUS_BYTES ? length : SERVICE_STATUS_BYTES - 1;
    memcpy(status, at, length);
    status[length] = '\0';
    return true;
}

bool service_hear(struct service *service, char status[SERVICE_STATUS_BYTES])
{
    char text[256];
    ssize_t count;
    while ((count = recv(service->reports, text, sizeof text - 1, MSG_DONTWAIT)) >= 0) {
        text[count] = '\0';
        bool is_loading = strstr(text, "STATUS=loading") != NULL;
        bool is_news = !(is_loading && service->is_loading);
        service->is_loading = service->is_loading || is_loading;
        service->is_ready = service->is_ready || strstr(text, "READY=1") != NULL;
        if (is_news && read_line(text, "STATUS=", status)) {
            return true;
        }
    }
    return false;
}

static enum service_verdict judge_test(struct service *service, int wait_status)
{
    service->is_tested = wait_status == 0;
    if (!service->is_tested) {
        log_event(LOG_ERROR, "the self-test has failed: this machine does not serve");
        return SERVICE_HOPELESS;
    }
    start(service);
    return SERVICE_GOES_ON;
}

enum service_verdict service_ended(struct service *service, int wait_status)
{
    int status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
    service->pid = 0;
    service->is_ready = false;
    if (!service->is_tested) {
        return judge_test(service, wait_status);
    }
    log_event(status == 0 ? LOG_INFO : LOG_WARN, "the appliance has ended: status=%d signal=%d",
              status, WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0);
    bool is_hopeless = status == BOOT_EXIT_USAGE || status == BOOT_EXIT_CONFIG ||
                       status == BOOT_EXIT_MODEL;
    return is_hopeless ? SERVICE_HOPELESS : SERVICE_GOES_ON;
}

bool service_stop(const struct service *service)
{
    return service->pid > 0 && kill(service->pid, SIGTERM) == 0;
}

int service_wait_ms(const struct service *service)
{
    if (service->pid == 0) {
        return PAUSE_MS;
    }
    return service->is_ready ? WATCHDOG_MS : -1;
}

void service_wait_is_over(struct service *service)
{
    if (service->pid == 0) {
        start(service);
    } else if (service->is_ready) {
        log_event(LOG_ERROR, "the appliance makes no progress: killed");
        kill(service->pid, SIGKILL);
    }
}

/* SPDX-License-Identifier: MIT */
/*
 * What: the first process of the machine (appliance/boot/init/init.h).
 *
 *   mounts -> modules -> network -> self-test -> service -> power
 *
 * It waits for signals, for what the service reports, and for the power button. Each stage says
 * one line with the time since the kernel began.
 *
 * Invariants: it never ends, for the kernel would panic; it reads nothing that came by the network.
 * Bounds: one child of its own at a time; orphans are reaped. It sleeps until there is news.
 */
#include "appliance/boot/init/init.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "appliance/boot/init/modules.h"
#include "appliance/boot/init/network.h"
#include "appliance/boot/init/power.h"
#include "appliance/boot/init/service.h"
#include "appliance/log.h"

struct init {
    struct service service;
    struct power power;
    int signals;                    /* signalfd */
    enum power_order order;         /* what is to happen when the service has ended */
};

bool init_is_wanted(char **argv)
{
    const char *slash = strrchr(argv[0], '/');
    return getpid() == 1 && strcmp(slash != NULL ? slash + 1 : argv[0], "init") == 0;
}

static uint64_t up_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void say_stage(const char *stage)
{
    log_event(LOG_INFO, "up_ms=%llu %s", (unsigned long long)up_ms(), stage);
}

static void mount_all(void)
{
    static const struct {
        const char *type, *at;
    } mounts[] = {{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}};
    for (uint32_t i = 0; i < sizeof mounts / sizeof mounts[0]; i++) {
        if (mount(mounts[i].type, mounts[i].at, mounts[i].type, MS_NOSUID | MS_NOEXEC, NULL) != 0) {
            log_event(LOG_ERROR, "mount %s: %s", mounts[i].at, strerror(errno));
        }
    }
}

/* The kernel gives words of its command line that it does not know to its first process: those with
 * a value as environment. */
static void bring_up_network(void)
{
    struct network_address address;
    const char *text = getenv("ip");
    network_up_loopback();
    if (text == NULL) {
        log_event(LOG_WARN, "no ip= on the kernel's command line: there is no network");
    } else if (!network_parse(text, &address)) {
        log_event(LOG_ERROR, "ip=%s: not ADDRESS::GATEWAY:NETMASK::DEVICE:off", text);
    } else {
        network_up(&address);
    }
}

static void open_signals(struct init *init)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGINT);        /* Ctrl-Alt-Del: power_open() */
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    init->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* The service has ended, or there was none. */
static _Noreturn void leave(enum power_order order)
{
    say_stage(order == POWER_RESTART ? "restart" : "power off");
    power_act(order);
}

/* The first order drains, the next one ends it at once: as signals to the keeper. */
static void take_order(struct init *init, enum power_order order)
{
    init->order = order;
    if (!service_stop(&init->service)) {
        leave(order);
    }
}

static void take_end(struct init *init, int wait_status)
{
    enum service_verdict verdict = service_ended(&init->service, wait_status);
    if (init->order != POWER_NONE) {
        leave(init->order);
    } else if (verdict == SERVICE_HOPELESS) {
        leave(POWER_OFF);
    }
}

static void reap(struct init *init)
{
    int wait_status = 0;
    pid_t pid = 0;
    while ((pid = waitpid(-1, &wait_status, WNOHANG)) > 0) {
        if (pid == init->service.pid) {
            take_end(init, wait_status);
        }
    }
}

static void take_signals(struct init *init)
{
    struct signalfd_siginfo info;
    while (read(init->signals, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGINT) {
            take_order(init, POWER_RESTART);
        } else if (info.ssi_signo == SIGTERM) {
            take_order(init, POWER_OFF);
        }
    }
    reap(init);
}

static void take_reports(struct init *init)
{
    char status[SERVICE_STATUS_BYTES];
    while (service_hear(&init->service, status)) {
        say_stage(status);
    }
}

static _Noreturn void watch(struct init *init)
{
    struct pollfd polled[2 + POWER_BUTTONS_MAX] = {
        {.fd = init->signals, .events = POLLIN}, {.fd = init->service.reports, .events = POLLIN}};
    for (uint32_t i = 0; i < init->power.buttons_count; i++) {
        polled[2 + i] = (struct pollfd){.fd = init->power.buttons[i], .events = POLLIN};
    }
    for (;;) {
        int count = poll(polled, 2 + init->power.buttons_count, service_wait_ms(&init->service));
        take_signals(init);
        take_reports(init);
        if (power_is_pressed(&init->power)) {
            take_order(init, POWER_OFF);
        }
        if (count == 0) {
            service_wait_is_over(&init->service);
        }
    }
}

_Noreturn void init_run(char **argv)
{
    static struct init init;
    log_role("init");
    say_stage("the kernel is up");
    mount_all();
    open_signals(&init);
    modules_load();
    bring_up_network();
    power_open(&init.power);
    say_stage("the machine is up");
    service_open(&init.service, argv + 1);
    watch(&init);
}

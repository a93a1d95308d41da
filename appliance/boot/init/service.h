/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the appliance as a service of the machine: first its self-test, then the keeper, each a
 * child that is this program again. For the keeper this is the service manager: it hears when the
 * keeper is ready, kills it when it falls silent, and starts it again when it has ended.
 *
 *   self-test fails                 hopeless: a machine that computes wrongly does not serve
 *   exit status 64, 65 or 78        hopeless: command line, model, configuration stay as they are
 *   any other end                   started again after a second
 *   nothing heard for 30 s, ready   killed
 */
#include <stdbool.h>
#include <sys/types.h>

#define SERVICE_STATUS_BYTES 64

enum service_verdict { SERVICE_GOES_ON, SERVICE_HOPELESS };

struct service {
    pid_t pid;                      /* of its child; 0: there is none */
    int reports;                    /* datagrams of the keeper */
    /* private: only service.c */
    char **options;                 /* up to NULL, for both */
    bool is_tested, is_ready, is_loading;
};

/* Starts the self-test; with selftest=none in the environment, the keeper at once. */
void service_open(struct service *service, char **options);
/* The next status that the keeper has reported; of loading, the first. False: there is none. */
bool service_hear(struct service *service, char status[SERVICE_STATUS_BYTES]);
/* Its child has ended. */
enum service_verdict service_ended(struct service *service, int wait_status);
/* Asks it to end. False when there is no child. */
bool service_stop(const struct service *service);
/* How long silence is good; -1: for ever. */
int service_wait_ms(const struct service *service);
/* It has been silent that long. */
void service_wait_is_over(struct service *service);

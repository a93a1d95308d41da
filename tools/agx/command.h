/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the commands of `agx`, one file each. A command gets the address of the appliance and its
 * own words (argv[0] is its name), and returns an exit code.
 */
#include "tools/command_line.h"

/* The first members of a command's command line. */
#define AGX_COMMAND(name) .program = "agx", .command = (name), .elsewhere = "--to ADDRESS"

enum agx_exit_code {        /* after those of exit_code.h */
    EXIT_CONNECT = 3,       /* no appliance answers there */
    EXIT_REFUSED = 4,       /* the appliance refused, or was busy */
    EXIT_INCOMPLETE = 5,    /* a call was cancelled, failed, or met its deadline */
    EXIT_PROTOCOL = 6,      /* the answer broke the protocol, or was wrong */
    EXIT_WRONG = 7,         /* served, but with fewer right answers than --least asks */
};

int chat_main(const char *to, int argc, char **argv);
int generate_main(const char *to, int argc, char **argv);
int ping_main(const char *to, int argc, char **argv);
int load_main(const char *to, int argc, char **argv);
int flow_main(const char *to, int argc, char **argv);
int replay_main(const char *to, int argc, char **argv);
int agent_main(const char *to, int argc, char **argv);
int demo_main(const char *to, int argc, char **argv);
int ask_main(const char *to, int argc, char **argv);
int report_main(const char *to, int argc, char **argv);
int top_main(const char *to, int argc, char **argv);
int trace_main(const char *to, int argc, char **argv);
int tokenize_main(const char *to, int argc, char **argv);
int render_main(const char *to, int argc, char **argv);

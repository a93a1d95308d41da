/* SPDX-License-Identifier: MIT */
/*
 * What: `agx [--to ADDRESS] [--key-file FILE] COMMAND ...`: finds the command and hands it the rest
 * of the line. To add a command: one file, one prototype in command.h, one row in the table below.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tools/agx/command.h"
#include "tools/agx/dial.h"
#include "tools/agx/key.h"

#define DEFAULT_ADDRESS "127.0.0.1:7411"

static int run_tokenize(const char *to, int argc, char **argv)
{
    (void)to;               /* needs no appliance */
    return tokenize_main(argc, argv);
}

static const struct {
    const char *name;
    int (*run)(const char *to, int argc, char **argv);
    const char *help;
} commands[] = {
    {"generate", generate_main, "send a prompt, print the text as it comes"},
    {"tokenize", run_tokenize, "text to token ids, without an appliance"},
    {"replay", replay_main, "replay a trace of programs and measure"},
    {"agent", agent_main, "agents work on the tasks of a file; how many are right"},
    {"demo", demo_main, "four agents at once, side by side"},
    {"trace", trace_main, "what the appliance does, as a picture for Perfetto"},
    {"load", load_main, "many short calls, each checked"},
    {"ping", ping_main, "round trips in microseconds"},
};
#define COMMANDS_COUNT (sizeof commands / sizeof commands[0])

static void print_help(FILE *out)
{
    fprintf(out, "usage: agx [--to unix:PATH|HOST:PORT] [--key-file FILE] COMMAND [OPTION]..."
                 "\n\n"
                 "  --to ADDRESS     where it is; HOST is numeric (default " DEFAULT_ADDRESS ")\n"
                 "  --key-file FILE  the key for TCP: a line `ID SECRET`, mode 0600; without it\n"
                 "                   the same line in the variable " KEY_VARIABLE "\n\n");
    for (uint32_t i = 0; i < COMMANDS_COUNT; i++) {
        fprintf(out, "  %-12s  %s\n", commands[i].name, commands[i].help);
    }
    fprintf(out, "  %-12s  this list; `agx COMMAND --help` tells more\n\n"
                 "exit codes: 0 complete, 1 system, 2 usage, 3 cannot connect, 4 refused,\n"
                 "            5 cancelled, failed or deadline, 6 protocol, 7 wrong answers\n",
            "help");
}

static int run_command(const char *to, int argc, char **argv)
{
    for (uint32_t i = 0; i < COMMANDS_COUNT; i++) {
        if (strcmp(argv[0], commands[i].name) == 0) {
            return commands[i].run(to, argc, argv);
        }
    }
    fprintf(stderr, "agx: no command '%s'; `agx help` lists them\n", argv[0]);
    return EXIT_USAGE;
}

/* With the key in place, where there is one. */
static int run_with_key(const char *to, const char *key_file, int argc, char **argv)
{
    struct agx_key key;
    int found, code = key_load(key_file, &key, &found);
    if (code != EXIT_COMPLETE) {
        return code;
    }
    dial_use_key(found ? &key : NULL);
    code = run_command(to, argc, argv);
    dial_use_key(NULL);
    explicit_bzero(&key, sizeof key);
    return code;
}

int main(int argc, char **argv)
{
    const char *to = DEFAULT_ADDRESS, *key_file = NULL;
    int at = 1;
    for (; at < argc && argv[at][0] == '-'; at++) {
        if (strcmp(argv[at], "--to") == 0 && at + 1 < argc) {
            to = argv[++at];
        } else if (strncmp(argv[at], "--to=", 5) == 0) {
            to = argv[at] + 5;
        } else if (strcmp(argv[at], "--key-file") == 0 && at + 1 < argc) {
            key_file = argv[++at];
        } else if (strncmp(argv[at], "--key-file=", 11) == 0) {
            key_file = argv[at] + 11;
        } else if (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0) {
            print_help(stdout);
            return EXIT_COMPLETE;
        } else {
            fprintf(stderr, "agx: %s: not an option, or its value is missing; see `agx help`\n",
                    argv[at]);
            return EXIT_USAGE;
        }
    }
    if (at == argc) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[at], "help") == 0) {
        print_help(stdout);
        return EXIT_COMPLETE;
    }
    return run_with_key(to, key_file, argc - at, argv + at);
}

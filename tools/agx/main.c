/* SPDX-License-Identifier: MIT */
/*
 * What: `agx [--to ADDRESS] [--key-file FILE] COMMAND ...`: finds the command and hands it the rest
 * of the line. A new command needs one file, one prototype in command.h and one row in the table
 * below.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "appliance/boot/version.h"
#include "config/keys.h"
#include "tools/agx/command.h"
#include "tools/agx/dial.h"
#include "tools/agx/watch/text_port.h"

#define KEY_VARIABLE "AGX_KEY"

static const struct {
    const char *name;
    int (*run)(const char *to, int argc, char **argv);
    const char *help;
    bool asks_text_port;            /* not the one of --to */
} commands[] = {
    {"chat", chat_main, "talk with the model", false},
    {"generate", generate_main, "send a prompt, print the text as it comes", false},
    {"tokenize", tokenize_main, "text to token ids, without an appliance", false},
    {"render", render_main, "a conversation to a prompt, without an appliance", false},
    {"flow", flow_main, "run a workflow over rows, or explain its plan", false},
    {"replay", replay_main, "replay a trace of programs and measure", false},
    {"agent", agent_main, "agents work on the tasks of a file; how many are right", false},
    {"demo", demo_main, "the same agents on two appliances, side by side", false},
    {"ask", ask_main, "a question to the text port: health, stats, ended 12:03 ...", true},
    {"report", report_main, "who had what in a minute: calls, waits, service", true},
    {"top", top_main, "programs and calls while they run: who, how much, why it waits", true},
    {"trace", trace_main, "what the appliance does, as a picture for Perfetto", true},
    {"load", load_main, "many short calls, each checked", false},
    {"ping", ping_main, "round trips in microseconds", false},
};
#define COMMANDS_COUNT (sizeof commands / sizeof commands[0])

static bool is_text_port_named(int argc, char **argv)
{
    bool is_named = getenv(TEXT_PORT_VARIABLE) != NULL;
    for (int i = 1; i < argc; i++) {
        is_named = is_named || strncmp(argv[i], "--text", strlen("--text")) == 0;
    }
    return is_named;
}

/* `to`: where the operator has said that the appliance is; NULL: nothing was said. */
static int run_command(const char *to, int argc, char **argv)
{
    for (uint32_t i = 0; i < COMMANDS_COUNT; i++) {
        if (strcmp(argv[0], commands[i].name) == 0) {
            if (to != NULL && commands[i].asks_text_port && !is_text_port_named(argc, argv)) {
                fprintf(stderr, "agx: %s asks the text port: --text HOST:PORT behind the command, "
                        "in place of --to\n", argv[0]);
                return EXIT_USAGE;
            }
            return commands[i].run(to != NULL ? to : dial_default(), argc, argv);
        }
    }
    fprintf(stderr, "agx: no command '%s'; `agx help` lists them\n", argv[0]);
    return EXIT_USAGE;
}

/* `agx help COMMAND`: what `agx COMMAND --help` says. */
static int help_command(int argc, char **argv)
{
    char help[] = "--help";
    char *words[] = {argv[1], help, NULL};
    if (argc > 2) {
        fprintf(stderr, "agx: '%s' is one word too many; usage: agx help COMMAND\n", argv[2]);
        return EXIT_USAGE;
    }
    return run_command(NULL, 2, words);
}

/* The key that agx proves to have: one line `ID SECRET`, as in the appliance's file of keys, from
 * the file, or without one from AGX_KEY. The appliance's own parser reads it, so both sides take
 * the same. `*found` tells whether there is a key. 0, or an exit code after a message. */
static int load_key(const char *file, struct agx_key *key, int *found)
{
    struct config_keys keys;
    struct config_error error = {.text = ""};
    const char *words = getenv(KEY_VARIABLE), *name = file != NULL ? file : KEY_VARIABLE;
    *found = file != NULL || words != NULL;
    if (!*found) {
        return EXIT_COMPLETE;
    }
    enum status status =
        file != NULL ? config_keys_load_file(&keys, file, &error)
                     : config_keys_load_bytes(&keys, name, words, strlen(words), &error);
    if (status == STATUS_OK && keys.count > 1) {
        snprintf(error.text, sizeof error.text, "%.200s: %u keys, need one", name, keys.count);
        status = STATUS_CONFIG_OPTION;
    }
    if (status != STATUS_OK) {
        fprintf(stderr, "agx: %s\n", error.text);
    } else {
        memcpy(key->id, keys.keys[0].id, sizeof key->id);
        memcpy(key->secret, keys.keys[0].secret, sizeof key->secret);
    }
    config_keys_wipe(&keys);
    return status == STATUS_OK ? EXIT_COMPLETE : EXIT_USAGE;
}

/* What a script has stored is not all there was, if the disk is full: it must see that. */
static int end_output(int code)
{
    if (command_line_is_written() || code != EXIT_COMPLETE) {
        return code;
    }
    fprintf(stderr, "agx: not all output could be written\n");
    return EXIT_SYSTEM;
}

/* Runs the command with the key in place, if there is one. */
static int run_with_key(const char *to, const char *key_file, int argc, char **argv)
{
    struct agx_key key;
    int found, code = load_key(key_file, &key, &found);
    if (code != EXIT_COMPLETE) {
        return code;
    }
    dial_use_key(found ? &key : NULL);
    code = run_command(to, argc, argv);
    dial_use_key(NULL);
    explicit_bzero(&key, sizeof key);
    return code;
}

/* The commands and the exit codes, for --help. */
static void list_commands(char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "\n");
    for (uint32_t i = 0; i < COMMANDS_COUNT; i++) {
        used += (size_t)snprintf(text + used, bytes - used, "  %-12s  %s\n", commands[i].name,
                                 commands[i].help);
    }
    snprintf(text + used, bytes - used,
             "  %-12s  this list; `agx help COMMAND` tells more\n\n"
             "exit codes: 0 complete, 1 system, 2 usage, 3 cannot connect, 4 refused,\n"
             "            5 cancelled, failed or deadline, 6 protocol, 7 wrong answers\n", "help");
}

int main(int argc, char **argv)
{
    const char *to = NULL, *key_file = NULL, *affinity = NULL;
    char more[2048];
    int rest = argc;
    const struct argument rows[] = {
        {"--to", "ADDRESS", ARGUMENT_TEXT, &to, 0, 0,
         "where it is; HOST is numeric (default: $" DIAL_VARIABLE ",\n"
         "or " DIAL_INSTALLED " if there is one,\nelse " DIAL_BUILT ")"},
        {"--key-file", "FILE", ARGUMENT_TEXT, &key_file, 0, 0,
         "the key for TCP: a line `ID SECRET`, mode 0600; without it\n"
         "the same line in the variable " KEY_VARIABLE},
        {"--affinity", "KEY", ARGUMENT_TEXT, &affinity, 0, 0,
         "behind a load balancer, equal keys reach the same appliance\n(docs/fleet.md); "
         "at most 63 bytes (default: a random one)"},
    };
    const struct command_line line = {
        .program = "agx", .version = version_text,
        .usage = "[--to unix:PATH|HOST:PORT] [--key-file FILE] [--affinity KEY] COMMAND "
                 "[OPTION]...",
        .more = more, .rest = &rest, .rows = rows, .rows_count = sizeof rows / sizeof rows[0]};
    list_commands(more, sizeof more);
    int code = command_line_parse(&line, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return end_output(code);
    }
    if (rest == argc) {
        command_line_help(&line, stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[rest], "help") == 0 && rest + 1 == argc) {
        command_line_help(&line, stdout);
        return end_output(EXIT_COMPLETE);
    }
    if (strcmp(argv[rest], "help") == 0) {
        return end_output(help_command(argc - rest, argv + rest));
    }
    if (affinity != NULL && strlen(affinity) > AGX_AFFINITY_BYTES) {
        fprintf(stderr, "agx: --affinity: more than %d bytes\n", AGX_AFFINITY_BYTES);
        return EXIT_USAGE;
    }
    dial_use_affinity(affinity);
    return end_output(run_with_key(to, key_file, argc - rest, argv + rest));
}

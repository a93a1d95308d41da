/* SPDX-License-Identifier: MIT */
/* What: the command line. boot.c measures and reserves, keeper.c runs. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "appliance/boot/boot.h"
#include "appliance/boot/inherited.h"
#include "appliance/boot/listen.h"
#include "appliance/boot/model_digest.h"
#include "appliance/boot/plan.h"
#include "appliance/boot/init/init.h"
#include "appliance/keeper/confine.h"
#include "appliance/keeper/keeper.h"
#include "appliance/keeper/replies/file.h"
#include "appliance/keeper/upgrade/launcher.h"
#include "appliance/keeper/upgrade/likeness.h"
#include "appliance/keeper/upgrade/taker.h"
#include "appliance/log.h"
#include "appliance/boot/version.h"
#include "kernels/cuda/driver/images.h"
#include "selftest/post/post.h"

enum mode { MODE_SERVE, MODE_UPGRADE, MODE_CHECK, MODE_SELFTEST };

static void print_argument(const char *name, const char *value, const char *help)
{
    char words[32];
    snprintf(words, sizeof words, "%s%s%s", name, value[0] == '\0' || value[0] == '[' ? "" : " ",
             value);
    for (int length; *help != '\0'; help += length + (help[length] == '\n')) {
        length = (int)strcspn(help, "\n");
        printf("  %-22s  %.*s\n", words, length, help);
        words[0] = '\0';
    }
}

static void print_help(void)
{
    printf("usage: agentix [--config FILE] [--set section.key=value]... [--check] [--upgrade]\n"
           "               [--selftest] [--selftest-inject] [--version] [--help]\n\n");
#define ARGUMENT(name, value, help) print_argument(name, value, help);
#include "appliance/arguments.def"
    printf("\noptions, as [section] key = value in the file:\n\n");
    config_write_help(stdout);
}

static enum boot_exit usage(const char *problem, const char *argument)
{
    fprintf(stderr, "agentix: %s%s\nagentix: see agentix --help\n", problem, argument);
    return BOOT_EXIT_USAGE;
}

static enum boot_exit usage_of_unknown(const char *argument)
{
    size_t length = strlen(argument);
    const char *hint = "";
    if (strcmp(argument, "=") == 0) {
        return usage("blanks round the = of --set need quotes: --set 'section.key = value'", "");
    }
    if (length > 5 && strcmp(argument + length - 5, ".gguf") == 0) {
        hint = "agentix: a model is named as --set model.path=FILE\n";
    } else if (strncmp(argument, "--selftest", strlen("--selftest")) == 0) {
        hint = "agentix: --selftest, --selftest=full or --selftest=soak\n";
    } else if (argument[0] == '-') {
        hint = "agentix: options are set as --set section.key=value, or in a --config FILE\n";
    }
    fprintf(stderr, "agentix: unknown argument %s\n%sagentix: see agentix --help\n", argument,
            hint);
    return BOOT_EXIT_USAGE;
}

static enum boot_exit usage_of_value(const char *argument, const char *problem)
{
    fprintf(stderr, "agentix: %s: %s\nagentix: see agentix --help\n", argument, problem);
    return BOOT_EXIT_USAGE;
}

static enum boot_exit option_error(const struct config_error *error)
{
    fprintf(stderr, "agentix: %s\n", error->text);
    return BOOT_EXIT_CONFIG;
}

/* Reads the whole line. -1: go on; else the exit status. */
static int read_line(struct boot *boot, enum mode *mode, struct post_settings *selftest)
{
    int argc = boot->line.count;
    char **argv = boot->line.words;
    const char *problem = NULL;
    bool has_file = false;
    for (int i = 1; i < argc; i++) {
        bool is_file = strcmp(argv[i], "--config") == 0;
        bool takes_value = is_file || strcmp(argv[i], "--set") == 0;
        if (takes_value && i + 1 == argc) {
            return usage("missing value after ", argv[i]);
        }
        if (is_file && has_file) {
            return usage("--config given twice", "");
        }
        has_file = has_file || is_file;
        if (takes_value) {
            i++;
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help();
            return BOOT_EXIT_OK;
        } else if (strcmp(argv[i], "--version") == 0) {
            printf("agentix %s protocol %d\n", version_text, 1);
            images_write(stdout);
            return BOOT_EXIT_OK;
        } else if (strcmp(argv[i], "--check") == 0) {
            *mode = MODE_CHECK;
        } else if (strcmp(argv[i], "--upgrade") == 0 ||
                   strcmp(argv[i], "--upgrade=changed") == 0) {
            *mode = MODE_UPGRADE;
            boot->needs_another_program = argv[i][strlen("--upgrade")] != '\0';
        } else if (post_settings_take(selftest, argc, argv, &i, &problem)) {
            *mode = MODE_SELFTEST;
            if (problem != NULL) {
                return usage_of_value(argv[i], problem);
            }
        } else {
            return usage_of_unknown(argv[i]);
        }
    }
    if (*mode == MODE_SELFTEST && selftest->level == POST_NONE) {
        return usage("missing --selftest", "");
    }
    return -1;
}

/* Up to a plan that fits, and its memory unless it is only to be shown. */
static enum boot_exit prepare(struct boot *boot, enum mode mode,
                              const struct post_settings *selftest)
{
    enum boot_exit exit_status = boot_measure(boot);
    if (exit_status != BOOT_EXIT_OK) {
        return exit_status;
    }
    if (mode == MODE_SELFTEST) {
        post_plan_memory(boot, selftest);
    }
    if (mode == MODE_SERVE || mode == MODE_UPGRADE) {
        exit_status = model_digest_fill(boot);
        if (exit_status != BOOT_EXIT_OK) {
            return exit_status;
        }
    }
    if (mode == MODE_UPGRADE) {
        exit_status = taker_compare(boot);
        if (exit_status != BOOT_EXIT_OK) {
            return exit_status;
        }
    }
    if (mode == MODE_CHECK || !plan_fits(boot)) {
        plan_print(boot);
        fflush(stdout);
    }
    exit_status = boot_check_memory(boot);
    if (exit_status != BOOT_EXIT_OK || mode == MODE_CHECK) {
        return exit_status;
    }
    exit_status = boot_reserve(boot);
    return exit_status == BOOT_EXIT_OK ? replies_file_load(boot) : exit_status;
}

static enum boot_exit run(struct boot *boot, enum mode mode, const struct post_settings *selftest)
{
    bool serves = mode == MODE_SERVE || mode == MODE_UPGRADE;
    enum boot_exit exit_status = confine(boot, serves);
    if (exit_status != BOOT_EXIT_OK) {
        return exit_status;
    }
    exit_status = prepare(boot, mode, selftest);
    if (exit_status != BOOT_EXIT_OK || mode == MODE_CHECK) {
        listen_remove(boot);
        return exit_status;
    }
    return mode == MODE_SELFTEST ? post_run(boot, selftest) : keeper_run(boot);
}

/* Descriptors that were inherited by mistake, and not handed over, would take the places of
 * connections. The log would write to a descriptor of ours that became 0, 1 or 2, so these are
 * filled: "/" is there even in an empty chroot, and refuses both reading and writing. */
static void hold_standard_descriptors(void)
{
    int handle = 0;
    close_range(STDERR_FILENO + 1 + inherited_count(), ~0u, 0);
    do {
        handle = open("/", O_PATH | O_DIRECTORY);
    } while (handle >= 0 && handle <= STDERR_FILENO);
    if (handle >= 0) {
        close(handle);
    }
}

int main(int argc, char **argv)
{
    hold_standard_descriptors();
    if (init_is_wanted(argv)) {
        init_run(argv);
    }
    static struct boot boot;
    enum mode mode = MODE_SERVE;
    struct post_settings selftest;
    post_settings_init(&selftest);
    boot.line = (struct line){argc, argv};
    boot.version = version_text;
    boot.program = upgrade_own_program();
    int line = read_line(&boot, &mode, &selftest);
    if (line >= 0) {
        return line;
    }
    struct config_error error = {.text = ""};
    boot.is_upgrade = mode == MODE_UPGRADE;
    if (line_read_options(&boot.line, &boot.options, &error) != STATUS_OK) {
        return option_error(&error);
    }
    if (mode == MODE_SELFTEST) {
        post_choose_engine(&selftest, &boot.options);
    }
    if (boot.is_upgrade) {
        launcher_fork();
    }
    return run(&boot, mode, &selftest);
}

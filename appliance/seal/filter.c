/* SPDX-License-Identifier: MIT */
/*
 * What: the filter of system calls (appliance/seal/filter.h).
 *
 *   for each rule:  is it this call?  does each argument pass its check?  then its verdict
 *   at the end:     the verdict on all others
 *
 * Bounds: a program of at most PROGRAM_MAX instructions; a call is compared with rules in their
 * order, so those that are made most stand first.
 * Why not libseccomp: it allocates, and the table is all that it would read.
 */
#include "appliance/seal/filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/base/assert.h"

#define PROGRAM_MAX     320
#define X32_BIT         0x40000000u

struct program {
    struct sock_filter code[PROGRAM_MAX];
    uint32_t count;
};

static void emit(struct program *program, struct sock_filter instruction)
{
    ASSERT(program->count < PROGRAM_MAX);
    program->code[program->count++] = instruction;
}

static void emit_load(struct program *program, uint32_t offset)
{
    emit(program, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
}

/* `test`: BPF_JEQ or BPF_JSET. */
static void emit_skip_unless(struct program *program, uint16_t test, uint32_t value, uint32_t skip)
{
    ASSERT(skip <= UINT8_MAX);
    emit(program, (struct sock_filter)BPF_JUMP(BPF_JMP | test | BPF_K, value, 0, (uint8_t)skip));
}

static void emit_verdict(struct program *program, enum filter_verdict verdict)
{
    static const uint32_t actions[] = {
        [FILTER_ALLOW] = SECCOMP_RET_ALLOW,
        [FILTER_KILL] = SECCOMP_RET_KILL_PROCESS,
        [FILTER_NO_CALL] = SECCOMP_RET_ERRNO | ENOSYS,
    };
    emit(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, actions[verdict]));
}

static uint32_t checks_count(const struct filter_rule *rule)
{
    uint32_t count = 0;
    while (count < FILTER_CHECKS_MAX && rule->checks[count].kind != FILTER_NONE) {
        count++;
    }
    return count;
}

/* The low half of an argument: x86-64 has the low byte first. */
static uint32_t argument_offset(const struct filter_check *check)
{
    return (uint32_t)(offsetof(struct seccomp_data, args) + check->argument * sizeof(uint64_t));
}

static void emit_rule(struct program *program, const struct filter_rule *rule, const int *values)
{
    uint32_t count = checks_count(rule);
    emit_load(program, offsetof(struct seccomp_data, nr));
    emit_skip_unless(program, BPF_JEQ, rule->call, 2 * count + 1);
    for (uint32_t i = 0; i < count; i++) {
        const struct filter_check *check = &rule->checks[i];
        uint32_t value = check->kind == FILTER_KNOWN ? (uint32_t)values[check->value]
                                                     : check->value;
        emit_load(program, argument_offset(check));
        emit_skip_unless(program, check->kind == FILTER_BITS ? BPF_JSET : BPF_JEQ, value,
                         2 * (count - i - 1) + 1);
    }
    emit_verdict(program, rule->verdict);
}

/* A call of another architecture is none of these, whatever its number; one of x32 has a bit in its
 * number that no rule names. */
static void program_write(struct program *program, const struct filter *filter, const int *values)
{
    program->count = 0;
    emit_load(program, offsetof(struct seccomp_data, arch));
    emit(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
    emit_verdict(program, FILTER_KILL);
    emit_load(program, offsetof(struct seccomp_data, nr));
    emit_skip_unless(program, BPF_JSET, X32_BIT, 1);
    emit_verdict(program, FILTER_KILL);
    for (uint32_t i = 0; i < filter->rules_count; i++) {
        emit_rule(program, &filter->rules[i], values);
    }
    emit_verdict(program, filter->otherwise);
}

uint32_t filter_calls_count(const struct filter *filter)
{
    uint32_t count = 1;
    for (uint32_t i = 1; i < filter->rules_count; i++) {
        count += filter->rules[i].call != filter->rules[i - 1].call ? 1 : 0;
    }
    return count;
}

enum status filter_load(const struct filter *filter, const int *values)
{
    static struct program program;
    program_write(&program, filter, values);
    const struct sock_fprog code = {.len = (unsigned short)program.count, .filter = program.code};
    long loaded = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &code);
    return loaded == 0 ? STATUS_OK : STATUS_DEVICE_IO;
}

/* SPDX-License-Identifier: MIT */
/*
 * What: the filter of system calls (appliance/seal/filter.h).
 *
 *   each rule:   if it is this call, and each argument passes its check, then the rule's verdict
 *   at the end:  the verdict on all others
 *
 * Bounds: at most CODE_MAX instructions; a call is compared with the rules in their order, so the
 * most frequent calls stand first.
 * Why not libseccomp: it allocates, and would read nothing but the table.
 */
#include "appliance/seal/filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/base/assert.h"

#define CODE_MAX     384
#define X32_BIT         0x40000000u

struct bpf_code {
    struct sock_filter instructions[CODE_MAX];
    uint32_t count;
};

static void emit(struct bpf_code *code, struct sock_filter instruction)
{
    ASSERT(code->count < CODE_MAX);
    code->instructions[code->count++] = instruction;
}

static void emit_load(struct bpf_code *code, uint32_t offset)
{
    emit(code, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
}

/* `test`: BPF_JEQ, BPF_JGE or BPF_JSET. */
static void emit_skip_unless(struct bpf_code *code, uint16_t test, uint32_t value, uint32_t skip)
{
    ASSERT(skip <= UINT8_MAX);
    emit(code, (struct sock_filter)BPF_JUMP(BPF_JMP | test | BPF_K, value, 0, (uint8_t)skip));
}

static void emit_verdict(struct bpf_code *code, enum filter_verdict verdict)
{
    static const uint32_t actions[] = {
        [FILTER_ALLOW] = SECCOMP_RET_ALLOW,
        [FILTER_KILL] = SECCOMP_RET_KILL_PROCESS,
        [FILTER_NO_CALL] = SECCOMP_RET_ERRNO | ENOSYS,
        [FILTER_REFUSE] = SECCOMP_RET_ERRNO | EACCES,
        [FILTER_TRAP] = SECCOMP_RET_TRAP,
    };
    emit(code, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, actions[verdict]));
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

static bool is_known_at_load(const struct filter_check *check)
{
    return check->kind == FILTER_KNOWN || check->kind == FILTER_FROM ||
           check->kind == FILTER_BELOW;
}

/* Skips the rest of the rule where the argument does not pass. */
static void emit_check(struct bpf_code *code, const struct filter_check *check, const int *values,
                       uint32_t skip)
{
    uint32_t value = is_known_at_load(check) ? (uint32_t)values[check->value] : check->value;
    emit_load(code, argument_offset(check));
    if (check->kind == FILTER_BELOW) {
        emit(code, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, value, (uint8_t)skip,
                                                0));
        return;
    }
    emit_skip_unless(code, check->kind == FILTER_BITS   ? BPF_JSET
                           : check->kind == FILTER_FROM ? BPF_JGE : BPF_JEQ, value, skip);
}

static void emit_rule(struct bpf_code *code, const struct filter_rule *rule, const int *values)
{
    uint32_t count = checks_count(rule);
    emit_load(code, offsetof(struct seccomp_data, nr));
    emit_skip_unless(code, BPF_JEQ, rule->call, 2 * count + 1);
    for (uint32_t i = 0; i < count; i++) {
        emit_check(code, &rule->checks[i], values, 2 * (count - i - 1) + 1);
    }
    emit_verdict(code, rule->verdict);
}

/* Calls of another architecture or of x32 are refused before the rules, which would take their
 * numbers for others. */
static void write_code(struct bpf_code *code, const struct filter *filter, const int *values)
{
    code->count = 0;
    emit_load(code, offsetof(struct seccomp_data, arch));
    emit(code, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
    emit_verdict(code, FILTER_KILL);
    emit_load(code, offsetof(struct seccomp_data, nr));
    emit_skip_unless(code, BPF_JSET, X32_BIT, 1);
    emit_verdict(code, FILTER_KILL);
    for (uint32_t i = 0; i < filter->rules_count; i++) {
        emit_rule(code, &filter->rules[i], values);
    }
    emit_verdict(code, filter->otherwise);
}

uint32_t filter_calls_count(const struct filter *filter)
{
    uint32_t count = 1;
    for (uint32_t i = 1; i < filter->rules_count; i++) {
        count += filter->rules[i].call != filter->rules[i - 1].call ? 1 : 0;
    }
    return count;
}

static enum status load_with(const struct filter *filter, const int *values, unsigned flags)
{
    static struct bpf_code code;
    write_code(&code, filter, values);
    const struct sock_fprog given = {(unsigned short)code.count, code.instructions};
    long loaded = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &given);
    return loaded == 0 ? STATUS_OK : STATUS_DEVICE_IO;
}

enum status filter_load(const struct filter *filter, const int *values)
{
    return load_with(filter, values, SECCOMP_FILTER_FLAG_TSYNC);
}

enum status filter_load_own(const struct filter *filter, const int *values)
{
    return load_with(filter, values, 0);
}

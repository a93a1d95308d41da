/* SPDX-License-Identifier: MIT */
/*
 * What: the table of classes. A class is found by its trust domain and its name, or by its domain
 * and the hash of a KV block's tokens.
 *
 *   class   in a hash chain, and in the list of its domain by use
 *   domain  there while it has classes; in a hash chain, and in a heap by how many it has
 *
 * When the table is full a new class takes the place of the idlest one of the domain that has most.
 * So whatever names a client invents, they push out its own domain's classes, once that has its
 * share. Programs may be open whose class is forgotten: they refer to it by a number that is never
 * given twice, so they find nothing, and what they have cost is not learnt.
 * Why not keep the classes of open programs: programs may be more than classes.
 *
 * A name is compared in full. Of a KV block only the keyed hash is compared: without the key two
 * blocks of one hash cannot be found, and who found them would mix two classes of his own.
 *
 * Invariants: the numbers in a chain, the lists, the heap and the counts of domains agree.
 * Bounds: O(log domains). Where the most expensive class of a domain has become cheaper, or is
 * forgotten, the classes of that domain are walked once: that is after a program, not in a step.
 */
#include "sched/class/class.h"

#include <string.h>

#include "config/base/assert.h"
#include "config/base/hash.h"
#include "config/base/ring.h"
#include "sched/sched.h"

STATIC_ASSERT(CALL_CLASS_BYTES % sizeof(uint64_t) == 0, "names are hashed in whole words");

void sched_class_plan_memory(struct memory_plan *plan, uint32_t classes)
{
    memory_plan_add(plan, MEMORY_CORE, "sched classes", classes, sizeof(struct sched_class));
    memory_plan_add(plan, MEMORY_CORE, "sched class domains", classes,
                    sizeof(struct sched_class_domain));
    memory_plan_add(plan, MEMORY_CORE, "sched class hash", 2ull * ring_capacity_ceil(classes),
                    sizeof(uint32_t));
    heap_plan_memory(plan, "sched class heap", classes);
}

void sched_class_init(struct sched *sched, struct arena *arena)
{
    struct sched_classes *classes = &sched->classes;
    uint32_t count = sched->settings.classes, chains = ring_capacity_ceil(count);
    ASSERT(count > 0 && count < SCHED_CLASS_NONE);
    *classes = (struct sched_classes){.hash_mask = chains - 1};
    classes->each = arena_take(arena, count, sizeof *classes->each);
    classes->domains = arena_take(arena, count, sizeof *classes->domains);
    classes->hash = arena_take(arena, 2ull * chains, sizeof *classes->hash);
    classes->domain_hash = classes->hash + chains;
    heap_init(&classes->by_classes, count, arena);
    for (uint32_t i = 0; i < chains; i++) {
        classes->hash[i] = classes->domain_hash[i] = SCHED_CLASS_NONE;
    }
    for (uint32_t i = 0; i < count; i++) {
        classes->each[i].hash_next = classes->domains[i].hash_next =
            i + 1 < count ? i + 1 : SCHED_CLASS_NONE;
    }
}

/* ---- the list of a domain -------------------------------------------------------------------- */

static struct sched_class_domain *owner_of(const struct sched_classes *classes, uint32_t slot)
{
    return &classes->domains[classes->each[slot].owner];
}

static void unlink_class(struct sched_classes *classes, uint32_t slot)
{
    struct sched_class_domain *domain = owner_of(classes, slot);
    uint32_t next = classes->each[slot].next, prev = classes->each[slot].prev;
    *(prev != SCHED_CLASS_NONE ? &classes->each[prev].next : &domain->head) = next;
    *(next != SCHED_CLASS_NONE ? &classes->each[next].prev : &domain->tail) = prev;
}

/* As the one that was used last. */
static void link_class(struct sched_classes *classes, uint32_t slot)
{
    struct sched_class_domain *domain = owner_of(classes, slot);
    uint32_t next = domain->head;
    classes->each[slot].next = next;
    classes->each[slot].prev = SCHED_CLASS_NONE;
    domain->head = slot;
    *(next != SCHED_CLASS_NONE ? &classes->each[next].prev : &domain->tail) = slot;
}

static uint64_t rounds_of(const struct sched_classes *classes, uint32_t slot)
{
    return classes->each[slot].learnt.rounds;
}

/* The most expensive class of the domain may be another one. */
static void find_largest(struct sched_classes *classes, struct sched_class_domain *domain)
{
    domain->largest = domain->head;
    for (uint32_t i = domain->head; i != SCHED_CLASS_NONE; i = classes->each[i].next) {
        bool is_larger = rounds_of(classes, i) > rounds_of(classes, domain->largest);
        domain->largest = is_larger ? i : domain->largest;
    }
}

static void use(struct sched_classes *classes, uint32_t slot)
{
    unlink_class(classes, slot);
    link_class(classes, slot);
}

void sched_class_set_mean(struct sched *sched, struct sched_class *class, uint64_t rounds)
{
    struct sched_classes *classes = &sched->classes;
    uint32_t slot = (uint32_t)(class - classes->each);
    struct sched_class_domain *domain = owner_of(classes, slot);
    bool falls = rounds < class->learnt.rounds;
    ASSERT(class->in_use);
    class->learnt.rounds = rounds;
    use(classes, slot);
    if (slot == domain->largest && falls) {
        find_largest(classes, domain);
    } else if (rounds > rounds_of(classes, domain->largest)) {
        domain->largest = slot;
    }
}

/* ---- domains --------------------------------------------------------------------------------- */

static uint32_t *domain_chain(const struct sched *sched, uint64_t domain)
{
    uint64_t hash = hash_content(sched->settings.hash_key, domain, NULL, 0);
    return &sched->classes.domain_hash[hash & sched->classes.hash_mask];
}

static uint32_t find_domain(const struct sched *sched, uint64_t domain)
{
    uint32_t slot = *domain_chain(sched, domain);
    while (slot != SCHED_CLASS_NONE && sched->classes.domains[slot].domain != domain) {
        slot = sched->classes.domains[slot].hash_next;
    }
    return slot;
}

static uint32_t make_domain(struct sched *sched, uint64_t domain)
{
    uint32_t slot = sched->classes.domain_free, *chain = domain_chain(sched, domain);
    ASSERT(slot != SCHED_CLASS_NONE);
    struct sched_class_domain *entry = &sched->classes.domains[slot];
    sched->classes.domain_free = entry->hash_next;
    *entry = (struct sched_class_domain){.domain = domain, .hash_next = *chain,
                                         .head = SCHED_CLASS_NONE, .tail = SCHED_CLASS_NONE,
                                         .largest = SCHED_CLASS_NONE};
    *chain = slot;
    return slot;
}

static void unchain_domain(struct sched *sched, uint32_t slot)
{
    struct sched_class_domain *entry = &sched->classes.domains[slot];
    uint32_t *link = domain_chain(sched, entry->domain);
    while (*link != slot) {
        ASSERT(*link != SCHED_CLASS_NONE);
        link = &sched->classes.domains[*link].hash_next;
    }
    *link = entry->hash_next;
    entry->hash_next = sched->classes.domain_free;
    sched->classes.domain_free = slot;
}

/* The domain has one class more, or one less. */
static void count_classes(struct sched *sched, uint32_t slot, int32_t more)
{
    struct sched_class_domain *entry = &sched->classes.domains[slot];
    entry->classes += (uint32_t)more;
    sched->classes.count += (uint32_t)more;
    if (entry->classes > 0) {
        heap_set(&sched->classes.by_classes, slot, UINT64_MAX - entry->classes);
        return;
    }
    heap_remove(&sched->classes.by_classes, slot);
    unchain_domain(sched, slot);
}

const struct sched_class *sched_class_largest(const struct sched *sched, uint64_t domain)
{
    uint32_t slot = find_domain(sched, domain);
    return slot != SCHED_CLASS_NONE ? &sched->classes.each[sched->classes.domains[slot].largest]
                                    : NULL;
}

/* ---- classes --------------------------------------------------------------------------------- */

/* What a class is found by. */
struct key {
    uint64_t domain, hash;
    const char *name;
};

static uint32_t *chain_of(const struct sched *sched, uint64_t hash)
{
    return &sched->classes.hash[hash & sched->classes.hash_mask];
}

static uint32_t find(const struct sched *sched, const struct key *key)
{
    uint32_t slot = *chain_of(sched, key->hash);
    while (slot != SCHED_CLASS_NONE) {
        const struct sched_class *class = &sched->classes.each[slot];
        if (class->hash == key->hash && class->domain == key->domain &&
            strcmp(class->name, key->name) == 0) {
            break;
        }
        slot = class->hash_next;
    }
    return slot;
}

static void forget(struct sched *sched, uint32_t slot)
{
    struct sched_class *class = &sched->classes.each[slot];
    uint32_t *link = chain_of(sched, class->hash);
    while (*link != slot) {
        ASSERT(*link != SCHED_CLASS_NONE);
        link = &sched->classes.each[*link].hash_next;
    }
    *link = class->hash_next;
    unlink_class(&sched->classes, slot);
    if (owner_of(&sched->classes, slot)->largest == slot) {
        find_largest(&sched->classes, owner_of(&sched->classes, slot));
    }
    count_classes(sched, class->owner, -1);
    *class = (struct sched_class){.hash_next = sched->classes.free};
    sched->classes.free = slot;
    sched->stats->classes_forgotten++;
}

/* Before a class of this domain is made: the idlest of the domain with most classes, but of the
 * new one's own where that has as many. */
static void make_room(struct sched *sched, uint64_t domain)
{
    const struct sched_classes *classes = &sched->classes;
    uint32_t most = heap_first(&classes->by_classes), own = find_domain(sched, domain);
    if (own != SCHED_CLASS_NONE &&
        classes->domains[own].classes == classes->domains[most].classes) {
        most = own;
    }
    forget(sched, classes->domains[most].tail);
}

static uint32_t make(struct sched *sched, const struct key *key)
{
    struct sched_classes *classes = &sched->classes;
    if (classes->free == SCHED_CLASS_NONE) {
        make_room(sched, key->domain);
    }
    uint32_t slot = classes->free, *chain = chain_of(sched, key->hash);
    uint32_t owner = find_domain(sched, key->domain);
    struct sched_class *class = &classes->each[slot];
    owner = owner != SCHED_CLASS_NONE ? owner : make_domain(sched, key->domain);
    classes->free = class->hash_next;
    *class = (struct sched_class){.in_use = true, .number = ++classes->number,
                                  .domain = key->domain, .hash = key->hash, .owner = owner,
                                  .hash_next = *chain};
    memcpy(class->name, key->name, strnlen(key->name, CALL_CLASS_BYTES));
    *chain = slot;
    count_classes(sched, owner, 1);
    link_class(classes, slot);
    struct sched_class_domain *domain = &classes->domains[owner];
    domain->largest = domain->classes > 1 ? domain->largest : slot;
    return slot;
}

static void join(struct sched *sched, struct program *program, const struct key *key)
{
    uint32_t slot = find(sched, key);
    slot = slot != SCHED_CLASS_NONE ? slot : make(sched, key);
    program->class = (struct sched_class_ref){.slot = slot,
                                              .number = sched->classes.each[slot].number};
    use(&sched->classes, slot);
}

const struct sched_class *sched_class_of(const struct sched *sched, const struct program *program)
{
    const struct sched_class_ref ref = program->class;
    if (ref.number == 0) {
        return NULL;
    }
    ASSERT(ref.slot < sched->settings.classes);
    const struct sched_class *class = &sched->classes.each[ref.slot];
    return class->number == ref.number ? class : NULL;
}

void sched_class_join(struct sched *sched, uint32_t index, const char *name)
{
    struct program *program = &sched->programs[index];
    bool has_had_calls = program->active_calls > 0 || program->calls_ended > 0;
    if (name[0] != '\0' && !has_had_calls && sched_class_of(sched, program) == NULL) {
        sched_class_join_name(sched, program, name);
    }
}

void sched_class_join_name(struct sched *sched, struct program *program, const char *name)
{
    char words[CALL_CLASS_BYTES + 1] = {0};
    memcpy(words, name, strnlen(name, CALL_CLASS_BYTES));
    join(sched, program,
         &(struct key){.domain = program->domain, .name = words,
                       .hash = hash_content(sched->settings.hash_key, program->domain, words,
                                            CALL_CLASS_BYTES)});
}

void sched_class_join_by_prompt(struct sched *sched, const struct call *call)
{
    struct program *program = &sched->programs[call->program];
    uint32_t block_tokens = sched->engines[0].kv->settings.block_tokens;
    if (sched_class_of(sched, program) != NULL || call->prompt_tokens < block_tokens) {
        return;
    }
    join(sched, program,
         &(struct key){.domain = program->domain, .name = "",
                       .hash = hash_content(sched->settings.hash_key, program->domain,
                                            call->tokens, block_tokens * sizeof *call->tokens)});
}

/* ---- check ----------------------------------------------------------------------------------- */

/* Returns how many classes are in the list of the domain. */
static uint32_t check_list(const struct sched_classes *classes, uint32_t owner)
{
    const struct sched_class_domain *domain = &classes->domains[owner];
    uint32_t count = 0, before = SCHED_CLASS_NONE, slot = domain->head;
    bool has_largest = false;
    while (slot != SCHED_CLASS_NONE) {
        const struct sched_class *class = &classes->each[slot];
        ASSERT(class->in_use && class->owner == owner && class->domain == domain->domain);
        ASSERT(class->prev == before && ++count <= domain->classes);
        ASSERT(class->learnt.rounds <= rounds_of(classes, domain->largest));
        has_largest = has_largest || slot == domain->largest;
        before = slot;
        slot = class->next;
    }
    ASSERT(domain->tail == before && has_largest);
    return count;
}

static uint32_t check_domains(const struct sched *sched)
{
    const struct heap *by_classes = &sched->classes.by_classes;
    uint32_t sum = 0;
    heap_check(by_classes);
    for (uint32_t i = 0; i < sched->settings.classes; i++) {
        const struct sched_class_domain *domain = &sched->classes.domains[i];
        if (!heap_has(by_classes, i)) {
            continue;
        }
        ASSERT(find_domain(sched, domain->domain) == i && domain->classes > 0);
        ASSERT(check_list(&sched->classes, i) == domain->classes);
        sum += domain->classes;
    }
    return sum;
}

void sched_class_check(const struct sched *sched)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sched->settings.classes; i++) {
        const struct sched_class *class = &sched->classes.each[i];
        if (!class->in_use) {
            ASSERT(class->number == 0);
            continue;
        }
        const struct key key = {.domain = class->domain, .hash = class->hash, .name = class->name};
        ASSERT(find(sched, &key) == i && class->number <= sched->classes.number);
        ASSERT(class->learnt.rounds_least <= class->learnt.rounds);
        ASSERT(class->learnt.rounds <= class->learnt.rounds_most);
        ASSERT(class->recalled <= sched->settings.recall_tokens);
        count++;
    }
    ASSERT(count == sched->classes.count && check_domains(sched) == count);
    for (uint32_t i = sched->classes.free; i != SCHED_CLASS_NONE; count++) {
        ASSERT(count < sched->settings.classes && !sched->classes.each[i].in_use);
        i = sched->classes.each[i].hash_next;
    }
    ASSERT(count == sched->settings.classes);
}

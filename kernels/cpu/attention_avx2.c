/* SPDX-License-Identifier: MIT
 *
 * What: attention of rows together over paged keys and values, AVX2 (kernels/ops.h defines the
 * result).
 *
 *   stretch  KERNELS_STRETCH tokens; all rows go through one before any goes to the next, so its
 *            keys, or values, are in the L1 cache for all who share them
 *   run      neighbouring rows whose blocks in the stretch are the same
 *   tile     up to six queries (heads of rows) of a run. Sums are in registers:
 *     scores   lanes are tokens: a key block is (head_dim, block_tokens), so eight tokens of one
 *              channel are one load
 *     weigh    lanes are channels; the sums go into `out` from one stretch to the next
 *
 * A tile is 6 queries x 2 octets, so that a load serves six sums; with few queries it is wider
 * instead, so that there are eight sums or more to hide the latency of the fused operation.
 *
 * Invariants: a float that is stored and loaded again is the same float, so stretches, runs and
 * tiles never enter a sum. Lanes of tokens that do not exist yet (stale memory of a block) are
 * computed and never read, because exponentiate() masks them, and weigh() stops at each row's last
 * token: the rows of a tile go together as far as all of them see, then each goes on alone.
 *
 * Why sharing is looked for in each stretch, and not told by the caller: it takes a comparison of a
 * few block ids beside thousands of products, and finds prompts that share, branches that part
 * later, and the rows of one prompt by one rule.
 */
#include "kernels/cpu/avx2.h"

#define QUERIES_MAX 6
#define OCTETS_MAX  8           /* of tokens in a stretch, of channels at once */

/* Rows that find the same keys and values in a stretch. */
struct run {
    const struct kernels_attention *a;
    uint32_t first;             /* token */
    uint32_t block_first, offset;           /* its place in a table, and in the block */
    uint32_t tokens;            /* that the first row sees of the stretch; no other sees more */
    uint32_t rows_count;
    const struct kernels_attending *rows[KERNELS_BUNDLE_ROWS];
    /* Where each octet of tokens begins; the last one again where there are no more. */
    const uint8_t *keys[OCTETS_MAX];
    const uint8_t *values[OCTETS_MAX];
};

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t tokens_seen(const struct run *run, const struct kernels_attending *row)
{
    return row->tokens > run->first ? smaller(row->tokens - run->first, KERNELS_STRETCH) : 0;
}

/* Does a row that sees `tokens` tokens of the stretch find them where the first row does? */
static bool run_admits(const struct run *run, const struct kernels_attending *row, uint32_t tokens)
{
    const uint32_t *blocks = row->blocks + run->block_first;
    const uint32_t *same = run->rows[0]->blocks + run->block_first;
    if (tokens > run->tokens) {
        return false;
    }
    for (uint32_t i = 0; i * run->a->block_tokens < run->offset + tokens; i++) {
        if (blocks[i] != same[i]) {
            return false;
        }
    }
    return true;
}

static void run_place(struct run *run)
{
    const struct kernels_attention *a = run->a;
    const uint32_t *block = run->rows[0]->blocks + run->block_first;
    uint32_t lanes = kernels_head_lanes(a->head_dim);
    uint32_t offset = run->offset, size = a->halves ? sizeof(uint16_t) : sizeof(float);
    const uint8_t *keys = a->keys, *values = a->values;
    for (uint32_t j = 0; j < OCTETS_MAX; j++) {
        run->keys[j] = keys + *block * a->block_bytes + offset * size;
        run->values[j] = values + *block * a->block_bytes + offset * lanes * size;
        bool is_last = (j + 1) * KERNELS_OCTET >= run->tokens;
        offset += is_last ? 0 : KERNELS_OCTET;
        if (offset == a->block_tokens) {
            offset = 0;
            block++;
        }
    }
}

/* The run that begins with the first row from `row` on that sees the stretch; rows that do not are
 * passed over. Returns the row after the run; no rows, no run. */
static uint32_t run_find(struct run *run, uint32_t row)
{
    const struct kernels_attention *a = run->a;
    run->rows_count = 0;
    for (; row < a->rows_count; row++) {
        uint32_t tokens = tokens_seen(run, &a->rows[row]);
        if (tokens == 0) {
            continue;
        }
        if (run->rows_count == 0) {
            run->tokens = tokens;
        } else if (!run_admits(run, &a->rows[row], tokens)) {
            break;
        }
        run->rows[run->rows_count++] = &a->rows[row];
    }
    if (run->rows_count > 0) {
        run_place(run);
    }
    return row;
}

/* Up to QUERIES_MAX queries of a run. */
struct tile {
    const float *queries[QUERIES_MAX];
    float *scores[QUERIES_MAX];             /* of the stretch */
    float *out[QUERIES_MAX];
    uint32_t tokens[QUERIES_MAX];           /* that each sees of the stretch */
};

struct cursor {
    uint32_t row, head;
};

static void tile_fill(struct tile *tile, const struct run *run, struct cursor *at, uint32_t count)
{
    const struct kernels_attention *a = run->a;
    uint32_t lanes = kernels_head_lanes(a->head_dim);
    for (uint32_t q = 0; q < count; q++) {
        const struct kernels_attending *row = run->rows[at->row];
        tile->queries[q] = row->queries + at->head * a->head_dim;
        tile->scores[q] = row->scores + at->head * a->scores_stride + run->first;
        tile->out[q] = row->out + at->head * lanes;
        tile->tokens[q] = tokens_seen(run, row);
        if (++at->head == a->heads) {
            at->head = 0;
            at->row++;
        }
    }
}

/* How many queries a tile has, how many octets it takes at a time, and of what: constants of each
 * copy of the code. */
struct form {
    int queries, octets;
    bool halves;
};

/* The octet of numbers that lies `index` numbers behind `at`. */
ALWAYS_INLINE __m256 octet_at(const uint8_t *at, uint64_t index, bool halves)
{
    if (halves) {
        const uint16_t *from = (const uint16_t *)(const void *)at + index;
        return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from));
    }
    return _mm256_loadu_ps((const float *)(const void *)at + index);
}

/* ---- scores ---- */

ALWAYS_INLINE void score_octets(const struct tile *t, const struct run *run, uint32_t first,
                                struct form form)
{
    __m256 sums[QUERIES_MAX][OCTETS_MAX];
    const uint8_t *keys[OCTETS_MAX];
    const float *q[QUERIES_MAX];
    uint64_t step = run->a->block_tokens;
    int queries = form.queries, octets = form.octets;
#pragma GCC unroll 8
    for (int j = 0; j < octets; j++) {
        keys[j] = run->keys[first + (uint32_t)j];
#pragma GCC unroll 6
        for (int i = 0; i < queries; i++) {
            q[i] = t->queries[i];
            sums[i][j] = _mm256_setzero_ps();
        }
    }
    for (uint64_t d = 0; d < run->a->head_dim; d++) {
        __m256 key[OCTETS_MAX];
#pragma GCC unroll 8
        for (int j = 0; j < octets; j++) {
            key[j] = octet_at(keys[j], d * step, form.halves);
        }
#pragma GCC unroll 6
        for (int i = 0; i < queries; i++) {
            __m256 x = _mm256_broadcast_ss(q[i] + d);
#pragma GCC unroll 8
            for (int j = 0; j < octets; j++) {
                sums[i][j] = _mm256_fmadd_ps(x, key[j], sums[i][j]);
            }
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
#pragma GCC unroll 8
        for (int j = 0; j < octets; j++) {
            _mm256_storeu_ps(t->scores[i] + (first + (uint32_t)j) * KERNELS_OCTET, sums[i][j]);
        }
    }
}

/* A divisor of OCTETS_MAX octets at a time: what is past the last one has room in the scores. */
ALWAYS_INLINE void score_tile(const struct tile *t, const struct run *run, struct form form)
{
    for (uint32_t j = 0; j * KERNELS_OCTET < run->tokens; j += (uint32_t)form.octets) {
        score_octets(t, run, j, form);
    }
}

ALWAYS_INLINE void score_form(const struct tile *t, const struct run *run, uint32_t queries,
                              bool halves)
{
    switch (queries) {
    case 1: score_tile(t, run, (struct form){1, 8, halves}); break;
    case 2: score_tile(t, run, (struct form){2, 4, halves}); break;
    case 3: score_tile(t, run, (struct form){3, 2, halves}); break;
    case 4: score_tile(t, run, (struct form){4, 2, halves}); break;
    case 5: score_tile(t, run, (struct form){5, 2, halves}); break;
    default: score_tile(t, run, (struct form){6, 2, halves}); break;
    }
}

static void score_queries(const struct tile *t, const struct run *run, uint32_t queries)
{
    if (run->a->halves) {
        score_form(t, run, queries, true);
    } else {
        score_form(t, run, queries, false);
    }
}

/* ---- weigh ---- */

/* Tokens of a stretch: [first, end). */
struct span {
    uint32_t first, end;
};

/* Adds the tokens of a span to so many octets of channels from `lane` on. */
ALWAYS_INLINE void weigh_octets(const struct tile *t, const struct run *run, struct span span,
                                uint32_t lane, struct form form)
{
    int queries = form.queries, octets = form.octets;
    __m256 sums[QUERIES_MAX][OCTETS_MAX];
    uint64_t lanes = kernels_head_lanes(run->a->head_dim);
    const float *weights[QUERIES_MAX];
#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
        weights[i] = t->scores[i];
#pragma GCC unroll 8
        for (int j = 0; j < octets; j++) {
            sums[i][j] = _mm256_loadu_ps(t->out[i] + lane + j * 8);
        }
    }
    for (uint32_t token = span.first; token < span.end;) {
        uint32_t octet = token / KERNELS_OCTET;
        uint32_t end = smaller(span.end, (octet + 1) * KERNELS_OCTET);
        uint64_t index = token % KERNELS_OCTET * lanes + lane;
        for (; token < end; token++, index += lanes) {
            __m256 v[OCTETS_MAX];
#pragma GCC unroll 8
            for (int j = 0; j < octets; j++) {
                v[j] = octet_at(run->values[octet], index + (uint32_t)j * 8, form.halves);
            }
#pragma GCC unroll 6
            for (int i = 0; i < queries; i++) {
                __m256 w = _mm256_broadcast_ss(weights[i] + token);
#pragma GCC unroll 8
                for (int j = 0; j < octets; j++) {
                    sums[i][j] = _mm256_fmadd_ps(w, v[j], sums[i][j]);
                }
            }
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
#pragma GCC unroll 8
        for (int j = 0; j < octets; j++) {
            _mm256_storeu_ps(t->out[i] + lane + j * 8, sums[i][j]);
        }
    }
}

/* All channels: the form's octets at a time while there are as many, then half of them. */
ALWAYS_INLINE void weigh_tile(const struct tile *t, const struct run *run, struct span span,
                              struct form form)
{
    uint32_t lane = 0, lanes = kernels_head_lanes(run->a->head_dim);
#pragma GCC unroll 4
    for (int octets = form.octets; octets > 0; octets /= 2) {
        struct form part = {form.queries, octets, form.halves};
        uint32_t wide = (uint32_t)octets * KERNELS_OCTET;
        for (; lane + wide <= lanes; lane += wide) {
            weigh_octets(t, run, span, lane, part);
        }
    }
}

ALWAYS_INLINE void weigh_form(const struct tile *t, const struct run *run, struct span span,
                              uint32_t queries, bool halves)
{
    switch (queries) {
    case 1: weigh_tile(t, run, span, (struct form){1, 8, halves}); break;
    case 2: weigh_tile(t, run, span, (struct form){2, 4, halves}); break;
    case 3: weigh_tile(t, run, span, (struct form){3, 2, halves}); break;
    case 4: weigh_tile(t, run, span, (struct form){4, 2, halves}); break;
    case 5: weigh_tile(t, run, span, (struct form){5, 2, halves}); break;
    default: weigh_tile(t, run, span, (struct form){6, 2, halves}); break;
    }
}

static void weigh_together(const struct tile *t, const struct run *run, struct span span,
                           uint32_t queries)
{
    if (run->a->halves) {
        weigh_form(t, run, span, queries, true);
    } else {
        weigh_form(t, run, span, queries, false);
    }
}

static void weigh_queries(const struct tile *t, const struct run *run, uint32_t queries)
{
    struct span all = {0, KERNELS_STRETCH};
    for (uint32_t q = 0; q < queries; q++) {
        all.end = smaller(all.end, t->tokens[q]);
    }
    weigh_together(t, run, all, queries);
    for (uint32_t q = 0; q < queries; q++) {
        if (t->tokens[q] > all.end) {
            struct tile alone = {.scores = {t->scores[q]}, .out = {t->out[q]}};
            weigh_together(&alone, run, (struct span){all.end, t->tokens[q]}, 1);
        }
    }
}

/* ---- the walk ---- */

/* Even tiles: 16 queries are 6 + 5 + 5 and not 6 + 6 + 4. */
ALWAYS_INLINE void run_tiles(const struct run *run, bool scores)
{
    uint32_t left = run->rows_count * run->a->heads;
    struct cursor at = {0, 0};
    for (uint32_t tiles = (left + QUERIES_MAX - 1) / QUERIES_MAX; tiles > 0; tiles--) {
        struct tile tile;
        uint32_t queries = (left + tiles - 1) / tiles;
        tile_fill(&tile, run, &at, queries);
        if (scores) {
            score_queries(&tile, run, queries);
        } else {
            weigh_queries(&tile, run, queries);
        }
        left -= queries;
    }
}

ALWAYS_INLINE void attention_walk(const struct kernels_attention *a, bool scores)
{
    struct run run = {.a = a};
    uint32_t tokens = 0;
    STATIC_ASSERT(OCTETS_MAX * KERNELS_OCTET == KERNELS_STRETCH, "octets of a stretch");
    ASSERT(a->block_tokens % KERNELS_OCTET == 0);
    ASSERT(a->rows_count <= KERNELS_BUNDLE_ROWS);
    for (uint32_t i = 0; i < a->rows_count; i++) {
        tokens = tokens > a->rows[i].tokens ? tokens : a->rows[i].tokens;
    }
    for (; run.first < tokens; run.first += KERNELS_STRETCH) {
        run.block_first = run.first / a->block_tokens;
        run.offset = run.first % a->block_tokens;
        for (uint32_t row = 0; row < a->rows_count;) {
            row = run_find(&run, row);
            run_tiles(&run, scores);
        }
    }
}

void kernels_scores_avx2(const struct kernels_attention *attention)
{
    attention_walk(attention, true);
}

void kernels_weigh_avx2(const struct kernels_attention *attention)
{
    uint32_t floats = attention->heads * kernels_head_lanes(attention->head_dim);
    for (uint32_t i = 0; i < attention->rows_count; i++) {
        memset(attention->rows[i].out, 0, floats * sizeof(float));
    }
    attention_walk(attention, false);
}

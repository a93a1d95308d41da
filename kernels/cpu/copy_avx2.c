/* SPDX-License-Identifier: MIT */
/*
 * What: the copy of KV blocks from one tier to the other, past the caches.
 *
 * Four streams, a quarter of the copy each, with stores that do not read the line first; four
 * streams ask for more lines at a time than one.
 *
 * Why not memcpy(): its stores go past the caches from a size on that comes from that of the last
 * cache, which is far more than a run of blocks. docs/performance.md has figures.
 */
#include "kernels/cpu/avx2.h"

#define STREAMS       4u
#define LINES_FLOATS  32u               /* two cache lines */
#define AHEAD_FLOATS  128u              /* of the loads: what is asked for early */

ALWAYS_INLINE void copy_lines(float *to, const float *from)
{
    _mm_prefetch((const char *)(from + AHEAD_FLOATS), _MM_HINT_T0);
    _mm_prefetch((const char *)(from + AHEAD_FLOATS + LINES_FLOATS / 2), _MM_HINT_T0);
    __m256 a = _mm256_load_ps(from), b = _mm256_load_ps(from + KERNELS_OCTET);
    __m256 c = _mm256_load_ps(from + 2 * KERNELS_OCTET);
    __m256 d = _mm256_load_ps(from + 3 * KERNELS_OCTET);
    _mm256_stream_ps(to, a);
    _mm256_stream_ps(to + KERNELS_OCTET, b);
    _mm256_stream_ps(to + 2 * KERNELS_OCTET, c);
    _mm256_stream_ps(to + 3 * KERNELS_OCTET, d);
}

void kernels_copy_avx2(float *to, const float *from, uint64_t count)
{
    STATIC_ASSERT(STREAMS * LINES_FLOATS == KERNELS_COPY_FLOATS, "a turn of all streams");
    ASSERT(count % KERNELS_COPY_FLOATS == 0);
    ASSERT((uintptr_t)to % ARENA_ALIGN_BYTES == 0 && (uintptr_t)from % ARENA_ALIGN_BYTES == 0);
    uint64_t quarter = count / STREAMS;
    for (uint64_t i = 0; i < quarter; i += LINES_FLOATS) {
        for (uint32_t stream = 0; stream < STREAMS; stream++) {
            copy_lines(to + stream * quarter + i, from + stream * quarter + i);
        }
    }
    _mm_sfence();           /* before anybody is told that it is there */
}

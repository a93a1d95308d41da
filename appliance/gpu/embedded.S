/* SPDX-License-Identifier: MIT
 * The GPU worker's binary, stripped; GPU_BINARY is its path. */
    .section .rodata
    .balign 64
    .global gpu_binary_bytes
    .global gpu_binary_end
gpu_binary_bytes:
    .incbin GPU_BINARY
gpu_binary_end:
    .byte 0
    .section .note.GNU-stack,"",@progbits

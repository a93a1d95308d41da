/* SPDX-License-Identifier: MIT
 * The GPU worker's program, stripped; GPU_PROGRAM is its path. */
    .section .rodata
    .balign 64
    .global gpu_program_bytes
    .global gpu_program_end
gpu_program_bytes:
    .incbin GPU_PROGRAM
gpu_program_end:
    .byte 0
    .section .note.GNU-stack,"",@progbits

/* SPDX-License-Identifier: MIT
 * The kernels as nvcc has compiled them. GPU_IMAGE is the path; undefined without nvcc. */
    .section .rodata
    .balign 64
    .global images_data
images_data:
#ifdef GPU_IMAGE
    .incbin GPU_IMAGE
#endif
    .byte 0
    .section .note.GNU-stack,"",@progbits

/* SPDX-License-Identifier: MIT
 * What nvcc has made of the kernels; GPU_IMAGE is its path, and is not there without nvcc. */
    .section .rodata
    .balign 64
    .global images_data
images_data:
#ifdef GPU_IMAGE
    .incbin GPU_IMAGE
#endif
    .byte 0
    .section .note.GNU-stack,"",@progbits

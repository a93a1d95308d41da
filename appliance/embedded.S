/* SPDX-License-Identifier: MIT
 * The model that serves when model.path is empty; the Makefile says which file it is. */
    .section .rodata
    .balign 64
    .global embedded_model
    .global embedded_model_end
embedded_model:
    .incbin EMBEDDED_MODEL
embedded_model_end:
    .byte 0
    .section .note.GNU-stack,"",@progbits

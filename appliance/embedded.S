/* SPDX-License-Identifier: MIT
 * The model that serves when model.path is empty (build/embedded.gguf). */
    .section .rodata
    .balign 64
    .global embedded_model
    .global embedded_model_end
embedded_model:
    .incbin "build/embedded.gguf"
embedded_model_end:
    .byte 0
    .section .note.GNU-stack,"",@progbits

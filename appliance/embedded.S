/* SPDX-License-Identifier: MIT
 * The model that serves when model.path is empty. */
    .section .rodata
    .balign 64
    .global embedded_model
    .global embedded_model_end
embedded_model:
    .incbin "appliance/embedded.gguf"
embedded_model_end:
    .byte 0
    .section .note.GNU-stack,"",@progbits

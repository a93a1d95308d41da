/* SPDX-License-Identifier: MIT */
/*
 * Goal: our declarations of the driver, cuBLAS and NVML equal NVIDIA's. Method: if their headers
 * are there, the compiler compares each row of the tables and each constant; this test passes if it
 * compiles. (cuda.h renames functions by macros, so this file has nothing else.)
 */
#include "selftest/unit/test.h"

#if __has_include(<cudaTypedefs.h>) && __has_include(<cublas_v2.h>)
#define HAS_HEADERS 1
#include <cudaTypedefs.h>
/* Our warnings for C do not apply to their headers. */
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <cublas_v2.h>

#include "kernels/cuda/driver/blas.h"
#include "kernels/cuda/driver/driver.h"

#define ENTRY(name, version, parameters)                                                  \
    STATIC_ASSERT(__builtin_types_compatible_p(PFN_##name##_v##version,                   \
                                               unsigned (*) parameters), #name);
#include "kernels/cuda/driver/driver.def"
#undef ENTRY
#define RESULT(name, number, status) STATIC_ASSERT(CUDA_ERROR_##name == number, #name);
#include "kernels/cuda/driver/result.def"
#undef RESULT
#define ENTRY(name, parameters)                                                           \
    STATIC_ASSERT(__builtin_types_compatible_p(__typeof__(&name), unsigned (*) parameters), #name);
#include "kernels/cuda/driver/blas.def"
#undef ENTRY

#define SAME(ours, theirs) STATIC_ASSERT((int)(ours) == (int)(theirs), #theirs)
SAME(DRIVER_PROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(DRIVER_ECC, CU_DEVICE_ATTRIBUTE_ECC_ENABLED);
SAME(DRIVER_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(DRIVER_CAPABILITY_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(DRIVER_SHARED_BYTES_MAX, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(DRIVER_FUNCTION_SHARED_BYTES, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(DRIVER_CONTEXT_BLOCKING, CU_CTX_SCHED_BLOCKING_SYNC);
SAME(DRIVER_CONTEXT_KEEPS_LOCAL, CU_CTX_LMEM_RESIZE_TO_MAX);
SAME(DRIVER_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(DRIVER_EVENT_UNTIMED, CU_EVENT_DISABLE_TIMING);
SAME(DRIVER_LIMIT_STACK, CU_LIMIT_STACK_SIZE);
SAME(DRIVER_LIMIT_PRINTF, CU_LIMIT_PRINTF_FIFO_SIZE);
SAME(DRIVER_LIMIT_HEAP, CU_LIMIT_MALLOC_HEAP_SIZE);
SAME(BLAS_F32, CUDA_R_32F);
SAME(BLAS_F16, CUDA_R_16F);
SAME(BLAS_BF16, CUDA_R_16BF);
SAME(BLAS_SUCCESS, CUBLAS_STATUS_SUCCESS);
SAME(BLAS_ALLOC_FAILED, CUBLAS_STATUS_ALLOC_FAILED);
SAME(BLAS_EXECUTION_FAILED, CUBLAS_STATUS_EXECUTION_FAILED);
SAME(BLAS_PLAIN, CUBLAS_OP_N);
SAME(BLAS_TRANSPOSED, CUBLAS_OP_T);
SAME(BLAS_COMPUTE_F32, CUBLAS_COMPUTE_32F);
SAME(BLAS_COMPUTE_F32_PEDANTIC, CUBLAS_COMPUTE_32F_PEDANTIC);
SAME(BLAS_MATH_FULL_REDUCTION, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
SAME(BLAS_ALGORITHM, CUBLAS_GEMM_DEFAULT);
#else
#define HAS_HEADERS 0
#endif
#undef SAME

#if __has_include(<nvml.h>)
#define HAS_NVML 1
#include <nvml.h>
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#include "kernels/cuda/driver/nvml.h"

#define ENTRY(name, parameters)                                                           \
    STATIC_ASSERT(__builtin_types_compatible_p(__typeof__(&name), unsigned (*) parameters), #name);
#include "kernels/cuda/driver/nvml.def"
#undef ENTRY

#define SAME(ours, theirs) STATIC_ASSERT((int)(ours) == (int)(theirs), #theirs)
SAME(NVML_SENSOR_GPU, NVML_TEMPERATURE_GPU);
SAME(NVML_THRESHOLD_SLOWDOWN, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN);
SAME(NVML_SM_CLOCK, NVML_CLOCK_SM);
SAME(NVML_MEMORY_CLOCK, NVML_CLOCK_MEM);
SAME(NVML_ERROR_CORRECTED, NVML_MEMORY_ERROR_TYPE_CORRECTED);
SAME(NVML_ERROR_UNCORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED);
SAME(NVML_COUNTER_VOLATILE, NVML_VOLATILE_ECC);
SAME(NVML_COUNTER_AGGREGATE, NVML_AGGREGATE_ECC);
SAME(NVML_HARDWARE_SLOWDOWN, nvmlClocksThrottleReasonHwSlowdown);
SAME(NVML_SOFTWARE_THERMAL, nvmlClocksThrottleReasonSwThermalSlowdown);
SAME(NVML_HARDWARE_THERMAL, nvmlClocksThrottleReasonHwThermalSlowdown);
SAME(NVML_HARDWARE_POWER_BRAKE, nvmlClocksThrottleReasonHwPowerBrakeSlowdown);
#else
#define HAS_NVML 0
#endif

static void test_declarations_are_those_of_the_toolkit(void **state)
{
    if (!HAS_HEADERS) {
        print_message("skipped: no cudaTypedefs.h and cublas_v2.h here (CUDA=/path/of/toolkit)\n");
        skip();
    }
}

static void test_declarations_of_nvml_are_those_of_the_toolkit(void **state)
{
    if (!HAS_NVML) {
        print_message("skipped: no nvml.h here (CUDA=/path/of/toolkit)\n");
        skip();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_declarations_are_those_of_the_toolkit),
        cmocka_unit_test(test_declarations_of_nvml_are_those_of_the_toolkit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

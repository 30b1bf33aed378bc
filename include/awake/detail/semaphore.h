/* SPDX-License-Identifier: MIT
 *
 * awake/detail/semaphore.h: private. The initial state of a semaphore, checked by the compiler. */
#ifndef AWAKE_DETAIL_SEMAPHORE_H
#define AWAKE_DETAIL_SEMAPHORE_H

#ifdef __cplusplus
#define AW__SEMAPHORE_FITS(permits) sizeof(char[(uint64_t)(permits) <= AW_SEMAPHORE_MAX ? 1 : -1])
#else
#define AW__SEMAPHORE_FITS(permits)                                                                \
    sizeof(struct {                                                                                \
        _Static_assert((uint64_t)(permits) <= AW_SEMAPHORE_MAX, "more than AW_SEMAPHORE_MAX");     \
        char fits;                                                                                 \
    })
#endif
#define AW__SEMAPHORE_STATE(permits) (uint32_t)((permits)*4u + 0 * AW__SEMAPHORE_FITS(permits))

#endif

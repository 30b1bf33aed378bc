/* SPDX-License-Identifier: MIT
 *
 * awake/detail/async_case.h: private. Two tokens of awake/detail/async.h that must not come from a
 * system header: gcc suppresses warnings about macros of system headers, so users of an installed
 * Awake would not be warned about locals.
 *
 * The pragma makes this file a system header, so that -Wpedantic accepts the line marker after it.
 * The line marker ends that. Its file name is what gcc prints before the message. */
#ifndef AWAKE_DETAIL_ASYNC_CASE_H
#define AWAKE_DETAIL_ASYNC_CASE_H

/* clang-format off */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC system_header
# 1 "<no local and no switch around an await>"
#endif
#define AW__CASE case

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC system_header
# 1 "<AW_RETURN>"
#endif
#define AW__SET =
/* clang-format on */

#endif

/* SPDX-License-Identifier: MIT
 *
 * awake/async_case.h: two tokens of awake/async.h, in a place that gcc does not take for a system
 * header, so that whoever uses an installed Awake is warned about locals as well: gcc keeps quiet
 * about what comes out of a system header's macros. The pragma makes this a system header, so that
 * -Wpedantic accepts the line marker after it; the line marker ends that, and its name is what gcc
 * will print before the message. */
#ifndef AWAKE_ASYNC_CASE_H
#define AWAKE_ASYNC_CASE_H

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

/* SPDX-License-Identifier: MIT
 *
 * The await chain of a future, as text. */
#ifndef AW_FUTURE_CHAIN_H
#define AW_FUTURE_CHAIN_H

#include <awake/future.h>

#include "base/text.h"

/* Adds the await chain of `f`, one line per future, indented by `depth`. */
void aw__text_chain(aw__text *t, const aw_future *f, int depth);

#endif

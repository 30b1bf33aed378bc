/* SPDX-License-Identifier: MIT
 *
 * Opening and ending what must not be left: see core/opened.h. By who polls it. */
#ifndef AW_RUNTIME_OPENED_H
#define AW_RUNTIME_OPENED_H

#include "core/opened.h"

/* From its first poll on. `what` is named in a report. */
void aw__open_begin(aw__open *o, const aw_future *what, aw_cx *cx);
/* It is polled again, perhaps by another task, which counts it from now on. */
void aw__open_polled(aw__open *o, aw_cx *cx);
/* It is over. Also of one that is not open. */
void aw__open_end(aw__open *o, aw_cx *cx);

/* The same for what often is open for a while: in between it has no mark, but stays counted by its task. */
static inline void aw__open_again(aw__open *o, const aw_future *what, aw_cx *cx) {
    if (AW__LIKELY(o->what == what))
        o->mark = aw__open_mark(o);
    else
        aw__open_begin(o, what, cx);
}
static inline void aw__open_rest(aw__open *o, aw_cx *cx) {
    if (AW__LIKELY(!o->fiber))
        o->mark = 0;
    else
        aw__open_end(o, cx);
}

#endif

/* SPDX-License-Identifier: MIT */
#include "driver/place.h"

bool aw__place_park_in_driver(aw__place *p, uint64_t deadline, aw__events *e) {
    aw__driver *d = p->driver;
    bool asleep = aw__os_park_elsewhere(&p->word);
    e->count = d->type->collect(d, e->events, asleep ? deadline : 0);
    return !asleep || aw__os_unparked(&p->word);
}

void aw__place_leave(aw__place *p) {
    aw__driver *d = aw__load_acquire(&p->driver);
    if (d && aw__load_relaxed(&d->owner) && d->type->drain) d->type->drain(d);
    aw__store_relaxed(&p->owner, (uint64_t)0);
}

void aw__place_close(aw__place *p) {
    if (p->driver) aw__driver_close(p->driver);
    if (p->beside) aw__driver_close(p->beside);
}

void aw__place_free(aw__place *p) {
    if (p->beside) aw__driver_free(p->beside);
    if (p->driver) aw__driver_free(p->driver);
}

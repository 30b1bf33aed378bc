// A program that uses everything about scopes, in strict C11, without a warning.
// MUST COMPILE
// flags: -Wpedantic -Wshadow -Wstrict-prototypes -Werror
#include <awake.h>

AW_ASYNC(int, child, int *into;) {
    AW_BEGIN;
    *self->into = 1;
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(double, body, int *into; aw_scope *scope; aw_scope_slot_future room;) {
    AW_BEGIN;
    aw_scope_limit(self->scope, 1);
    AW_AWAIT(self->room, aw_scope_slot(self->scope));
    if (aw_scope_try_slot(self->scope) < 0) AW_RETURN(0);
    aw_scope_spawn(self->scope, AW_CALL(child, .into = self->into));
    if (aw_scope_spawn_named(self->scope, "named", AW_CALL(child, .into = self->into)) < 0) AW_RETURN(0.5);
    AW_RETURN((double)aw_scope_count(self->scope));
    AW_END;
}
typedef AW_SCOPE(struct body) body_scope;

AW_FIBER(long, stack_body, aw_scope *scope; int *into;) {
    return aw_scope_spawn(self->scope, AW_CALL(child, .into = self->into));
}

AW_ASYNC(int, parent, int n; AW_SCOPE(struct body) s; AW_SELECT(body_scope, aw_sleep) race;) {
    AW_BEGIN;
    AW_AWAIT_SCOPE(self->s, AW_CALL(body, .into = &self->n));
    AW_AWAIT_SELECT(self->race, AW_SCOPE_OF(body_scope, AW_CALL(body, .into = &self->n)), aw_sleep_for(1));
    AW_RETURN(self->s.out ? self->s.out : (int)self->s.body.out);
    AW_END;
}

AW_FIBER(int, stack_parent) {
    int n = 0;
    double d = 0;
    long error = aw_await_scope(AW_CALL(stack_body, .into = &n));
    if (error < 0) return (int)error;
    return aw_await_scope_into(&d, AW_CALL(body, .into = &n));
}

AW_ASYNC(int, set_user, int n; aw_join_set set; struct child *task; aw_join_set_next_future next;
         aw_join_set_shutdown_future end;) {
    AW_BEGIN;
    aw_join_set_spawn(&self->set, AW_CALL(child, .into = &self->n));
    aw_join_set_abort_all(&self->set);
    if (aw_join_set_count(&self->set) == 0 || aw_join_set_try_next(&self->set, &self->task) == 0) AW_RETURN(1);
    AW_AWAIT(self->next, aw_join_set_next(&self->set, &self->task));
    if (self->task) aw_task_drop(self->task);
    aw_join_set_detach_all(&self->set);
    AW_AWAIT(self->end, aw_join_set_shutdown(&self->set));
    AW_RETURN(0);
    AW_END;
}

int main(void) {
    if (aw_run(AW_CALL(set_user))) return 1;
    return aw_run(AW_CALL(parent)) || aw_run(AW_CALL(stack_parent));
}

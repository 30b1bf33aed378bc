// A task that does not fit into the storage that it gets.
// MUST FAIL
// gcc: error: .*the storage is too small
// clang: error: .*the storage is too small
#include <awake.h>

AW_ASYNC(int, small) {
    AW_BEGIN;
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, large, char name[64];) {
    AW_BEGIN;
    AW_RETURN(0);
    AW_END;
}

static AW_TASK_STORAGE(struct small) room;

int main(void) {
    aw_task_drop(aw_spawn_in(&room, AW_CALL(large)));
    aw_task_drop(aw_spawn_in(&room, AW_CALL(small)));
}

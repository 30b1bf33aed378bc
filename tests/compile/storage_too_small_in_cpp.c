// A task that does not fit into the storage that it gets, in C++.
// MUST FAIL
// lang: c++
// gcc: error: .*the storage is too small
// clang: error: .*the storage is too small
#include <awake.h>

static AW_TASK_STORAGE(aw_ready) room;

int main() {
    aw_task_drop(aw_spawn_in(&room, aw_sleep_for(1)));
}

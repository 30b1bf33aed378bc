# The compiler flags of this project, as lists. Nothing here changes a global setting: the lists are
# given to our own targets, so that a project that embeds Awake keeps its own flags.

include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
include(CheckLinkerFlag)

# Appends each flag that the compiler accepts to a list.
function(awake_probe_flags list)
    foreach(flag ${ARGN})
        string(MAKE_C_IDENTIFIER "AWAKE_HAS${flag}" known)
        check_c_compiler_flag(${flag} ${known})
        if(${known})
            list(APPEND ${list} ${flag})
        endif()
    endforeach()
    set(${list} ${${list}} PARENT_SCOPE)
endfunction()

# ---- Code generation of the library ------------------------------------------------------------

# initial-exec: a thread-local access is one instruction instead of a call, in the shared library too.
# The few bytes that it takes from every thread fit into what the C library keeps free for dlopen.
awake_probe_flags(AWAKE_LIBRARY_FLAGS -fno-semantic-interposition -ftls-model=initial-exec)

# __FILE__ reads src/core/future.c and not the path of the machine that compiled it.
awake_probe_flags(AWAKE_PATH_FLAGS -fmacro-prefix-map=${CMAKE_CURRENT_SOURCE_DIR}/=)

# ---- Sanitizers --------------------------------------------------------------------------------

if(AWAKE_SANITIZE STREQUAL "address")
    set(AWAKE_SANITIZE_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(AWAKE_SANITIZE STREQUAL "thread")
    set(AWAKE_SANITIZE_FLAGS -fsanitize=thread)
elseif(AWAKE_SANITIZE)
    message(FATAL_ERROR "AWAKE_SANITIZE is address or thread, not '${AWAKE_SANITIZE}'")
endif()
if(AWAKE_SANITIZE)
    list(APPEND AWAKE_SANITIZE_FLAGS -g -fno-omit-frame-pointer)
    # The reports name the lines that were written, and the tests still finish in time. Not part of what a user of the
    # library gets: it would be behind his own.
    set(AWAKE_SANITIZE_OPTIMISED -O1)
endif()

# ---- Hardening ---------------------------------------------------------------------------------

awake_probe_flags(AWAKE_HARDENING
    -fstack-clash-protection -fcf-protection -fstack-protector-strong)

# FORTIFY needs an optimising build, and a sanitizer sees more without it. The C library warns about a
# level it does not know, hence the header and -Werror in the probe.
if(NOT AWAKE_SANITIZE)
    foreach(level 3 2)
        set(CMAKE_REQUIRED_FLAGS "-O2 -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=${level}")
        check_c_source_compiles("#include <string.h>\nint main(void) { return 0; }" AWAKE_HAS_FORTIFY_${level})
        unset(CMAKE_REQUIRED_FLAGS)
        if(AWAKE_HAS_FORTIFY_${level})
            set(optimised $<CONFIG:Release,RelWithDebInfo,MinSizeRel>)
            list(APPEND AWAKE_HARDENING
                $<${optimised}:-U_FORTIFY_SOURCE> $<${optimised}:-D_FORTIFY_SOURCE=${level}>)
            break()
        endif()
    endforeach()
endif()

check_linker_flag(C -Wl,-z,relro,-z,now AWAKE_HAS_RELRO_NOW)
if(AWAKE_HAS_RELRO_NOW)
    set(AWAKE_HARDENING_LINK -Wl,-z,relro,-z,now)
endif()

# ---- Warnings ----------------------------------------------------------------------------------

# What a careful user has on; the examples are compiled with exactly these.
set(AWAKE_WARNINGS -Wall -Wextra -Wpedantic)
if(AWAKE_WERROR)
    list(APPEND AWAKE_WARNINGS -Werror)
endif()
# What we ask of ourselves beyond that.
set(AWAKE_STRICT_WARNINGS -Wshadow -Wstrict-prototypes -Wvla)
set(AWAKE_LIBRARY_WARNINGS ${AWAKE_STRICT_WARNINGS} -Wmissing-prototypes)

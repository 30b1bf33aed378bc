# The compiler flags of this project, as lists. They are applied to the targets of Awake only, so that a project
# that embeds Awake keeps its own flags.

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
# The few bytes per thread fit into the static TLS that the C library reserves for dlopen.
awake_probe_flags(AWAKE_LIBRARY_FLAGS -fno-semantic-interposition -ftls-model=initial-exec)

# __FILE__ is a path relative to the sources: src/future/future.c.
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
    # -O1: reports name the right lines, and the tests finish in time. Not passed on to targets that link the
    # library, where it would override their own level.
    set(AWAKE_SANITIZE_OPTIMISED -O1)
endif()

# ---- Hardening ---------------------------------------------------------------------------------

awake_probe_flags(AWAKE_HARDENING
    -fstack-clash-protection -fcf-protection -fstack-protector-strong)

# FORTIFY needs an optimising build, and sanitizers find more without it. The C library warns about an
# unknown level, so the probe includes a header and uses -Werror.
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

# The usual warnings of a careful user. The examples are compiled with exactly these.
set(AWAKE_WARNINGS -Wall -Wextra -Wpedantic)
if(AWAKE_WERROR)
    list(APPEND AWAKE_WARNINGS -Werror)
endif()
# Further warnings for the library and the tests.
set(AWAKE_STRICT_WARNINGS -Wshadow -Wstrict-prototypes -Wvla)
set(AWAKE_LIBRARY_WARNINGS ${AWAKE_STRICT_WARNINGS} -Wmissing-prototypes)

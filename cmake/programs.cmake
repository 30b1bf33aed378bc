# Tests, examples and benchmarks: every .c file in their folders is one program. tests/unit/task.c becomes
# tests/unit/task in the build directory, with the target test-unit-task.

function(awake_program target folder source)
    get_filename_component(name ${source} NAME_WE)
    add_executable(${target} ${source} ${ARGN})
    set_target_properties(${target} PROPERTIES
        OUTPUT_NAME ${name}
        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${folder}
        C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS ON)
    target_compile_options(${target} PRIVATE
        ${AWAKE_WARNINGS} ${AWAKE_HARDENING} ${AWAKE_SANITIZE_OPTIMISED} ${AWAKE_PATH_FLAGS})
    target_link_options(${target} PRIVATE ${AWAKE_HARDENING_LINK})
    target_link_libraries(${target} PRIVATE awake::static)
    # A line "/* link: OPTIONS */" adds link options. It is in the source, or in an included header of tests/support.
    set(files ${source})
    file(STRINGS ${source} included REGEX "^#include \"support/.*\"$")
    foreach(header ${included})
        string(REGEX REPLACE "^#include \"(.*)\"$" "${CMAKE_CURRENT_SOURCE_DIR}/tests/\\1" header ${header})
        list(APPEND files ${header})
    endforeach()
    foreach(file ${files})
        file(STRINGS ${file} link REGEX "^/\\* link: .* \\*/$")
        if(link)
            string(REGEX REPLACE "^/\\* link: (.*) \\*/$" "\\1" link ${link})
            separate_arguments(link)
            target_link_libraries(${target} PRIVATE ${link})
            set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
        endif()
    endforeach()
endfunction()

if(AWAKE_BUILD_TESTS)
    add_custom_target(tests)
    add_library(awake_test_main OBJECT tests/test_main.c)
    target_link_libraries(awake_test_main PRIVATE awake::static)
    target_compile_options(awake_test_main PRIVATE
        ${AWAKE_WARNINGS} ${AWAKE_LIBRARY_WARNINGS} ${AWAKE_HARDENING} ${AWAKE_PATH_FLAGS})
    # Compiling the tests takes longer than running them, so they are not optimised, unless AWAKE_TEST_LEVEL says so.
    # The library and the tests of fibers are, and the models, which take long.
    set(AWAKE_TEST_LEVEL -O0 CACHE STRING "Optimisation of the tests; gcc prints some warnings only with -O1")
    foreach(suite unit behaviour stress torture model)
        file(GLOB sources CONFIGURE_DEPENDS tests/${suite}/*.c)
        foreach(source ${sources})
            get_filename_component(name ${source} NAME_WE)
            set(target test-${suite}-${name})
            awake_program(${target} tests/${suite} ${source} $<TARGET_OBJECTS:awake_test_main>)
            target_include_directories(${target} PRIVATE tests src)
            target_compile_definitions(${target} PRIVATE $<$<BOOL:${uring}>:AW_URING>)
            target_compile_options(${target} PRIVATE ${AWAKE_STRICT_WARNINGS})
            if(suite STREQUAL "model" AND NOT AWAKE_SANITIZE)
                target_compile_options(${target} PRIVATE -O1)
            elseif(NOT name MATCHES "^fiber")
                target_compile_options(${target} PRIVATE ${AWAKE_TEST_LEVEL})
            endif()
            # The interleaver observes plain accesses through the calls that TSan inserts, and implements these calls.
            if(suite STREQUAL "model" AND NOT AWAKE_SANITIZE)
                target_compile_options(${target} PRIVATE -fsanitize=thread)
                target_compile_definitions(${target} PRIVATE MODEL_SEES_PLAIN)
            endif()
            add_dependencies(tests ${target})
        endforeach()
    endforeach()

    # Programs under which the runner runs other programs.
    file(GLOB sources CONFIGURE_DEPENDS tests/tools/*.c)
    foreach(source ${sources})
        get_filename_component(name ${source} NAME_WE)
        awake_program(test-tools-${name} tests/tools ${source})
        target_include_directories(test-tools-${name} PRIVATE tests)
        add_dependencies(tests test-tools-${name})
    endforeach()

    # The tests of fibers again, with portable stack switching (ucontext). Only the objects of src/fiber differ. They
    # come before the library on the link line, and replace its objects.
    file(GLOB fiber_sources CONFIGURE_DEPENDS src/fiber/*.c)
    awake_objects(awake_portable "${fiber_sources}" AW_FIBER_PORTABLE)
    set_target_properties(awake_portable PROPERTIES EXCLUDE_FROM_ALL ON)
    file(GLOB sources CONFIGURE_DEPENDS
        tests/unit/fiber_*.c tests/behaviour/fiber_*.c tests/stress/fiber_*.c tests/torture/fiber_*.c)
    foreach(source ${sources})
        get_filename_component(name ${source} NAME_WE)
        awake_program(test-portable-${name} tests/portable ${source} $<TARGET_OBJECTS:awake_test_main>
            $<TARGET_OBJECTS:awake_portable>)
        target_include_directories(test-portable-${name} PRIVATE tests src)
        target_compile_definitions(test-portable-${name} PRIVATE AW_FIBER_PORTABLE)
        add_dependencies(tests test-portable-${name})
    endforeach()

    enable_testing()
    add_test(NAME awake COMMAND
        ${CMAKE_CURRENT_SOURCE_DIR}/tests/run.py --build-dir ${CMAKE_CURRENT_BINARY_DIR})
endif()

if(AWAKE_BUILD_EXAMPLES)
    add_custom_target(examples)
    find_package(PkgConfig QUIET)
    file(GLOB sources CONFIGURE_DEPENDS examples/*.c)
    foreach(source ${sources})
        get_filename_component(name ${source} NAME_WE)
        # A line "/* needs: MODULE */" names a pkg-config module. If it is missing, the program is not built.
        file(STRINGS ${source} needs REGEX "^/\\* needs: .* \\*/$")
        set(needed)
        if(needs)
            string(REGEX REPLACE "^/\\* needs: (.*) \\*/$" "\\1" needs ${needs})
            if(PKG_CONFIG_FOUND)
                pkg_check_modules(needs_${name} QUIET IMPORTED_TARGET ${needs})
            endif()
            if(NOT needs_${name}_FOUND)
                continue()
            endif()
            set(needed PkgConfig::needs_${name})
        endif()
        awake_program(example-${name} examples ${source})
        target_link_libraries(example-${name} PRIVATE ${needed})
        # Plain user code: the strict standard and the usual warnings.
        set_target_properties(example-${name} PROPERTIES C_EXTENSIONS OFF)
        target_compile_definitions(example-${name} PRIVATE _DEFAULT_SOURCE)
        add_dependencies(examples example-${name})
    endforeach()
endif()

if(AWAKE_BUILD_BENCH)
    add_custom_target(bench)
    file(GLOB sources CONFIGURE_DEPENDS bench/*.c)
    foreach(source ${sources})
        get_filename_component(name ${source} NAME_WE)
        awake_program(bench-${name} bench ${source})
        add_dependencies(bench bench-${name})
    endforeach()
    # The network benchmarks: a load generator and servers, run by bench/network.py.
    file(GLOB sources CONFIGURE_DEPENDS bench/net/*.c)
    foreach(source ${sources})
        get_filename_component(name ${source} NAME_WE)
        awake_program(bench-net-${name} bench/net ${source})
        add_dependencies(bench bench-net-${name})
    endforeach()
endif()

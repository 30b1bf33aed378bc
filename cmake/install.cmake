# Headers, libraries, awake.pc and the package files for find_package(awake).

include(CMakePackageConfigHelpers)

install(TARGETS awake_static awake_shared EXPORT awake
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/awake.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/awake DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/awake)
install(EXPORT awake NAMESPACE awake:: FILE awake-targets.cmake DESTINATION ${package_dir})
configure_package_config_file(cmake/awake-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/awake-config.cmake
    INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may be incompatible: 0.2 does not satisfy a request for 0.1.
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/awake-config-version.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES
    ${CMAKE_CURRENT_BINARY_DIR}/awake-config.cmake
    ${CMAKE_CURRENT_BINARY_DIR}/awake-config-version.cmake
    DESTINATION ${package_dir})

# awake.pc derives its prefix from its own path, so that the installed tree can be moved or staged.
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR} OR IS_ABSOLUTE ${CMAKE_INSTALL_INCLUDEDIR})
    set(pc_prefix ${CMAKE_INSTALL_PREFIX})
    set(pc_libdir ${CMAKE_INSTALL_FULL_LIBDIR})
    set(pc_includedir ${CMAKE_INSTALL_FULL_INCLUDEDIR})
else()
    file(RELATIVE_PATH pc_up /prefix/${pc_dir} /prefix)
    string(REGEX REPLACE "/$" "" pc_up ${pc_up})
    set(pc_prefix "\${pcfiledir}/${pc_up}")
    set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
    set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
list(TRANSFORM uring PREPEND " -l" OUTPUT_VARIABLE pc_uring)
set(pc_private "-pthread${pc_uring}")
configure_file(cmake/awake.pc.in ${CMAKE_CURRENT_BINARY_DIR}/awake.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/awake.pc DESTINATION ${pc_dir})

# What `cmake --install` puts where: the library with its soname, the header, the command, its man
# page, a pkg-config file and a CMake package. All of it finds the rest by relative paths, so that a
# prefix given at install time or DESTDIR changes nothing.
include(CMakePackageConfigHelpers)

install(TARGETS phasor EXPORT phasorTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES include/phasor.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET phasor_command)
    install(TARGETS phasor_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(EXISTS ${CMAKE_SOURCE_DIR}/tools/phasor.1)
    install(FILES tools/phasor.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

# pkg-config: the prefix as seen from the file itself.
set(package_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH PHASOR_PREFIX_FROM_PACKAGE ${CMAKE_INSTALL_PREFIX}/${package_folder} ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" PHASOR_PREFIX_FROM_PACKAGE ${PHASOR_PREFIX_FROM_PACKAGE})
set(PHASOR_DLPACK_FLAG)
if(NOT DLPACK_INCLUDE IN_LIST CMAKE_C_IMPLICIT_INCLUDE_DIRECTORIES)
    set(PHASOR_DLPACK_FLAG " -I${DLPACK_INCLUDE}")
endif()
configure_file(cmake/phasor.pc.in ${CMAKE_BINARY_DIR}/phasor.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/phasor.pc DESTINATION ${package_folder})

# find_package(phasor) gives the target phasor::phasor.
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/phasor)
install(EXPORT phasorTargets NAMESPACE phasor:: DESTINATION ${package_folder})
configure_package_config_file(cmake/phasorConfig.cmake.in ${CMAKE_BINARY_DIR}/phasorConfig.cmake
    INSTALL_DESTINATION ${package_folder} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/phasorConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/phasorConfig.cmake ${CMAKE_BINARY_DIR}/phasorConfigVersion.cmake
    DESTINATION ${package_folder})

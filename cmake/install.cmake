# What `cmake --install` puts where.
install(TARGETS phasor LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS phasor_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES include/phasor.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

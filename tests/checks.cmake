# Checks that are scripts: of the sources, of the sanitizers, of the example and of what is installed.
add_test(NAME layers COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/check_layers.sh)

# A sanitizer that sees nothing would let every test pass: each must fail on its own planted fault.
function(phasor_planted fault pattern)
    add_test(NAME planted_${fault} COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/check_planted.sh
             $<TARGET_FILE:planted> ${fault} ${pattern})
endfunction()
if(PHASOR_SANITIZE)
    add_executable(planted planted.c)
    target_link_libraries(planted PRIVATE phasor_flags Threads::Threads)
    if(PHASOR_SANITIZE MATCHES "address")
        phasor_planted(overflow heap-buffer-overflow)
        phasor_planted(leak LeakSanitizer)
    endif()
    if(PHASOR_SANITIZE MATCHES "undefined")
        phasor_planted(undefined "signed integer overflow")
    endif()
    if(PHASOR_SANITIZE MATCHES "thread")
        phasor_planted(race "data race")
    endif()
endif()

# The README's C program, built against the build tree ...
set(EXAMPLE_PROGRAM ${CMAKE_CURRENT_SOURCE_DIR}/cases/qk_rope_bf16_dynamic/plain.pt2)
add_executable(rotate example/rotate.c)
target_link_libraries(rotate PRIVATE phasor phasor_flags)
add_test(NAME example COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/check_example.sh $<TARGET_FILE:rotate> ${EXAMPLE_PROGRAM})

# The example server: requests on standard input, and under load from many threads.
add_test(NAME example_server COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/check_server.sh
         $<TARGET_FILE:phasor_example_server> ${EXAMPLE_PROGRAM} $<TARGET_FILE:phasor_stand_in_driver>
         $<TARGET_FILE:phasor_stand_in_nvrtc>)
set_tests_properties(example_server PROPERTIES TIMEOUT 300)

# ... and against what is installed, by pkg-config and by CMake. A sanitizer's runtime would have to
# be linked into programs that know nothing of it, so this is for the other presets.
if(TARGET phasor_command AND NOT PHASOR_SANITIZE)
    add_test(NAME install COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/check_install.sh ${CMAKE_COMMAND}
             ${CMAKE_GENERATOR} ${CMAKE_BINARY_DIR} ${EXAMPLE_PROGRAM} ${CMAKE_C_COMPILER})
    set_tests_properties(install PROPERTIES TIMEOUT 300)
endif()

# Every case on a GPU, against eager's outputs: tools/test.sh --gpu.
if(TARGET phasor_command)
    add_test(NAME gpu_cases COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/gpu/cases.sh)
    set_tests_properties(gpu_cases PROPERTIES LABELS gpu TIMEOUT 1200
        ENVIRONMENT "PHASOR=$<TARGET_FILE:phasor_command>;CASES=${CMAKE_CURRENT_SOURCE_DIR}/cases")
endif()

# The command under valgrind, which the sanitizers would not bear.
if(TARGET phasor_command AND NOT PHASOR_SANITIZE)
    add_test(NAME valgrind COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/check_valgrind.sh $<TARGET_FILE:phasor_command>
             ${CMAKE_CURRENT_SOURCE_DIR}/cases)
    set_tests_properties(valgrind PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
endif()

# Processes that share a cache: killed at random points, and many at once. The scripts' own defaults
# are 1000 kills and 20 rounds.
add_executable(cache_writer cache_writer.c)
target_link_libraries(cache_writer PRIVATE phasor_cache)
if(TARGET phasor_command)
    add_test(NAME cache_kills COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/kill.sh 30)
    add_test(NAME cache_many COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/many.sh 1 32)
    add_test(NAME cache_many_run COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/many.sh 1 32 run)
    # The run after a kill must end within a second: nothing else takes its processors meanwhile.
    set_tests_properties(cache_kills PROPERTIES RUN_SERIAL TRUE)
    set_tests_properties(cache_kills cache_many cache_many_run PROPERTIES TIMEOUT 300 ENVIRONMENT
        "PHASOR=$<TARGET_FILE:phasor_command>;WRITER=$<TARGET_FILE:cache_writer>;CASES=${CMAKE_CURRENT_SOURCE_DIR}/cases")
endif()

# The corpora of the fuzz targets, replayed.
add_subdirectory(fuzz)

# Programs that tests start are checked for leaks in the way of support/leak_options.h.
if(PHASOR_SANITIZE MATCHES address)
    get_property(all_tests DIRECTORY PROPERTY TESTS)
    foreach(test ${all_tests})
        set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT
            "LSAN_OPTIONS=use_tls=0:print_suppressions=0:suppressions=${CMAKE_CURRENT_SOURCE_DIR}/support/leaks.suppressions")
    endforeach()
endif()

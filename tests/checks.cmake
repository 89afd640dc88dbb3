# Checks that are scripts: of the sources, of the sanitizers, of the example and of what is installed.
# Those of the sources alone are not repeated under a sanitizer.
if(NOT PHASOR_SANITIZE)
    add_test(NAME layers COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/check_layers.sh)
    foreach(check format analysis)
        add_test(NAME ${check} COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/check_sources.sh ${check})
        set_tests_properties(${check} PROPERTIES SKIP_RETURN_CODE 77)
    endforeach()
endif()

# Verifiers in a release build: a status where PHASOR_VERIFY=1 asks for it, and nothing otherwise.
add_executable(verify_release verify_release.c ${CMAKE_SOURCE_DIR}/src/base/verify.c)
target_compile_options(verify_release PRIVATE -UPHASOR_CHECKED -DNDEBUG)
target_link_libraries(verify_release PRIVATE phasor_flags phasor_graph)
add_test(NAME verify_release COMMAND verify_release)

# The core of the tests in a host that set a locale, a rounding mode and the like.
add_test(NAME host_habits COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/check_host.sh ${CMAKE_CURRENT_BINARY_DIR})
set_tests_properties(host_habits PROPERTIES TIMEOUT 3600)

# The generator's stamp: what it is made of, and what becomes of plans when it changes. For the second
# the library is linked once more, with the stamp that one more source would give.
if(TARGET phasor_command AND PHASOR_CUDA AND NOT PHASOR_SANITIZE)
    set(CHANGED_STAMP ${CMAKE_CURRENT_BINARY_DIR}/changed/stamp.c)
    add_custom_command(OUTPUT ${CHANGED_STAMP}
        COMMAND stamp ${CHANGED_STAMP} ${STAMP_FILES} ${CMAKE_CURRENT_SOURCE_DIR}/check_stamp.sh
        DEPENDS stamp ${STAMP_FILES} check_stamp.sh VERBATIM)
    add_library(phasor_changed SHARED $<TARGET_OBJECTS:phasor_runtime> ${CHANGED_STAMP})
    target_link_libraries(phasor_changed PRIVATE ${PHASOR_LAYERS})
    set_target_properties(phasor_changed PROPERTIES OUTPUT_NAME phasor SOVERSION ${PROJECT_VERSION_MAJOR}
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/changed)
    add_test(NAME stamp COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/check_stamp.sh $<TARGET_FILE:phasor_command>
             $<TARGET_FILE:phasor_changed> $<TARGET_FILE:phasor_stand_in_driver> $<TARGET_FILE:phasor_stand_in_nvrtc>
             ${CMAKE_COMMAND} ${CMAKE_GENERATOR})
endif()

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
set_tests_properties(example_server PROPERTIES TIMEOUT 3600)

# ... and against what is installed, by pkg-config and by CMake. A sanitizer's runtime would have to
# be linked into programs that know nothing of it, so this is for the other presets.
if(TARGET phasor_command AND NOT PHASOR_SANITIZE)
    add_test(NAME install COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/check_install.sh ${CMAKE_COMMAND}
             ${CMAKE_GENERATOR} ${CMAKE_BINARY_DIR} ${EXAMPLE_PROGRAM} ${CMAKE_C_COMPILER})
    set_tests_properties(install PROPERTIES TIMEOUT 3600)
endif()

# The header alone, as old and as new as its users' compilers.
add_test(NAME header COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/check_header.sh ${PROJECT_SOURCE_DIR}/include
         ${CMAKE_C_COMPILER})
set_tests_properties(header PROPERTIES SKIP_RETURN_CODE 77)

# Every case on a GPU, against eager's outputs: tools/test.sh --gpu.
if(TARGET phasor_command)
    add_test(NAME gpu_cases COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/gpu/cases.sh)
    set_tests_properties(gpu_cases PROPERTIES LABELS gpu TIMEOUT 3600
        ENVIRONMENT "PHASOR=$<TARGET_FILE:phasor_command>;CASES=${CMAKE_CURRENT_SOURCE_DIR}/cases")
endif()

# Programs of more than 2^32 elements, and all cases under compute-sanitizer. What they do without a
# GPU: the programs at small sizes, and whether a tool that complains is heard.
if(TARGET phasor_command)
    set(LARGE_TEST bash ${CMAKE_CURRENT_SOURCE_DIR}/gpu/large.sh)
    add_test(NAME gpu_large COMMAND ${LARGE_TEST})
    add_test(NAME gpu_sanitize COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/gpu/sanitize.sh)
    set_tests_properties(gpu_large gpu_sanitize PROPERTIES LABELS gpu TIMEOUT 3600 RUN_SERIAL TRUE SKIP_RETURN_CODE 77
        ENVIRONMENT "PHASOR=$<TARGET_FILE:phasor_command>;CASES=${CMAKE_CURRENT_SOURCE_DIR}/cases")
    add_test(NAME large_in_small COMMAND ${LARGE_TEST})
    set_tests_properties(large_in_small PROPERTIES
        ENVIRONMENT "PHASOR=$<TARGET_FILE:phasor_command>;SMALL=1;DEVICE=cpu")
    if(PHASOR_CUDA)
        add_test(NAME sanitize_script COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/check_sanitize.sh
                 $<TARGET_FILE:phasor_command> ${CMAKE_CURRENT_SOURCE_DIR}/cases
                 $<TARGET_FILE:phasor_stand_in_driver> $<TARGET_FILE:phasor_stand_in_nvrtc>)
    endif()
endif()

# What a GPU must show of threads, capture, devices and memory: programs that need libphasor and the
# C library alone, so that they can be carried to where a GPU is. gpu/serve.sh runs them there; here
# they also run in short on the stand-in driver.
foreach(program threads capture devices shapes misuse)
    add_executable(gpu_${program} gpu/${program}.c gpu/call.c gpu/driver.c)
    target_include_directories(gpu_${program} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    target_link_libraries(gpu_${program} PRIVATE phasor phasor_flags Threads::Threads ${CMAKE_DL_LIBS})
    set_target_properties(gpu_${program} PROPERTIES BUILD_RPATH "\$ORIGIN" BUILD_RPATH_USE_ORIGIN ON)
endforeach()
set(ON_STAND_INS "PHASOR_DRIVER=$<TARGET_FILE:phasor_stand_in_driver>"
    "PHASOR_NVRTC=$<TARGET_FILE:phasor_stand_in_nvrtc>" PHASOR_STAND_IN_KEEP=1)
function(phasor_on_stand_ins name program environment)
    add_test(NAME stand_in_${name} COMMAND gpu_${program} ${CMAKE_CURRENT_SOURCE_DIR}/cases ${ARGN})
    set_tests_properties(stand_in_${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 3600
        ENVIRONMENT "${ON_STAND_INS};${environment}")
endfunction()
if(PHASOR_CUDA)
    phasor_on_stand_ins(threads threads "" 8 20 2)
    phasor_on_stand_ins(capture capture "" 3 2)
    phasor_on_stand_ins(contexts devices "" contexts 2 3)
    phasor_on_stand_ins(two_archs devices PHASOR_STAND_IN_ARCHS=sm_80,sm_90 two 2 3)
    phasor_on_stand_ins(two_of_one_arch devices PHASOR_STAND_IN_ARCHS=sm_90,sm_90 two 2 3)
    phasor_on_stand_ins(misuse misuse "" 4)
    # The address sanitizer keeps what was freed: a little of it, so that memory can be flat.
    phasor_on_stand_ins(shapes shapes ASAN_OPTIONS=quarantine_size_mb=1:thread_local_quarantine_size_kb=64
                        400 200 6 6)
endif()
add_test(NAME gpu_misuse COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/gpu/misuse.sh)
set_tests_properties(gpu_misuse PROPERTIES LABELS gpu TIMEOUT 1200 RUN_SERIAL TRUE SKIP_RETURN_CODE 77
    ENVIRONMENT "CASES=${CMAKE_CURRENT_SOURCE_DIR}/cases;PROGRAMS=${CMAKE_CURRENT_BINARY_DIR}")
if(TARGET phasor_command)
    set(GPU_SERVE bash ${CMAKE_CURRENT_SOURCE_DIR}/gpu/serve.sh)
    set(SERVE_ENVIRONMENT "PHASOR=$<TARGET_FILE:phasor_command>" "CASES=${CMAKE_CURRENT_SOURCE_DIR}/cases")
    add_test(NAME gpu_serve COMMAND ${GPU_SERVE})
    set_tests_properties(gpu_serve PROPERTIES LABELS gpu TIMEOUT 3600 RUN_SERIAL TRUE
        ENVIRONMENT "${SERVE_ENVIRONMENT}")
    if(PHASOR_CUDA)
        add_test(NAME stand_in_serve COMMAND ${GPU_SERVE} two shipped)
        set_tests_properties(stand_in_serve PROPERTIES TIMEOUT 3600 ENVIRONMENT
            "${ON_STAND_INS};${SERVE_ENVIRONMENT};LENGTHS=1,3:5:2;ARCHS=sm_80,sm_90;JOBS=2;CHECKED=2")
    endif()
endif()

# The command under valgrind, which the sanitizers would not bear.
if(TARGET phasor_command AND NOT PHASOR_SANITIZE)
    add_test(NAME valgrind COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/check_valgrind.sh $<TARGET_FILE:phasor_command>
             ${CMAKE_CURRENT_SOURCE_DIR}/cases)
    set_tests_properties(valgrind PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 3600)
endif()

# Processes that share a cache: killed at random points, and many at once. The scripts' own defaults
# are 1000 kills and 20 rounds.
add_executable(cache_writer cache_writer.c)
target_link_libraries(cache_writer PRIVATE phasor_cache)
if(TARGET phasor_command)
    add_test(NAME cache_kills COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/kill.sh 30)
    add_test(NAME cache_many COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/many.sh 1 32)
    add_test(NAME cache_many_run COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/many.sh 1 32 run)
    set_tests_properties(cache_kills cache_many cache_many_run PROPERTIES TIMEOUT 3600 ENVIRONMENT
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

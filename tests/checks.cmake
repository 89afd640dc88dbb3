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

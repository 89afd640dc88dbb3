# Finds the CUDA headers, cuda.h and nvrtc.h of 12.4 or newer:
#     CUDA_INCLUDE   their folder
#     PHASOR_CUDA    OFF for this configure when there are none, said once
# tools/setup.sh looks in the same places, and puts NVIDIA's wheels into build/cuda-wheels otherwise.

# The folder of the first usable toolkit among the arguments, in CUDA_INCLUDE; unset when none is.
function(phasor_cuda_choose)
    foreach(folder ${ARGN})
        if(EXISTS ${folder}/cuda.h AND EXISTS ${folder}/nvrtc.h)
            file(STRINGS ${folder}/cuda.h line REGEX "^#define CUDA_VERSION [0-9]+" LIMIT_COUNT 1)
            string(REGEX MATCH "[0-9]+" version "${line}")
            if(version GREATER_EQUAL 12040)
                get_filename_component(folder ${folder} REALPATH)
                set(CUDA_INCLUDE ${folder} PARENT_SCOPE)
                return()
            endif()
        endif()
    endforeach()
endfunction()

if(PHASOR_CUDA AND NOT CUDA_INCLUDE)
    find_program(PHASOR_NVCC nvcc)
    mark_as_advanced(PHASOR_NVCC)
    set(cuda_folders)
    foreach(root "$ENV{CUDA_PATH}" "$ENV{CUDA_HOME}")
        if(root)
            list(APPEND cuda_folders ${root}/include)
        endif()
    endforeach()
    if(PHASOR_NVCC)
        get_filename_component(nvcc ${PHASOR_NVCC} REALPATH)
        get_filename_component(nvcc ${nvcc} DIRECTORY)
        list(APPEND cuda_folders ${nvcc}/../include)
    endif()
    file(GLOB toolkits /usr/local/cuda-*/include)
    file(GLOB wheels ${CMAKE_SOURCE_DIR}/build/cuda-wheels/nvidia/cu1?/include
         ${CMAKE_BINARY_DIR}/cuda-wheels/nvidia/cu1?/include)
    phasor_cuda_choose(${cuda_folders} /usr/local/cuda/include ${toolkits} /opt/cuda/include /usr/include ${wheels})
    if(NOT CUDA_INCLUDE)
        message(STATUS "CUDA headers not found: building with PHASOR_CUDA=OFF (CPU device only)")
        set(PHASOR_CUDA OFF) # not cached: headers that come later are found
    endif()
endif()

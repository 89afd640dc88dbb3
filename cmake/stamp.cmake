# The generator's stamp, which stored plans are hits for: a hash of every source that decides a plan, a layout, code, or
# the form in which they are stored. src/load is among them because strides of outputs follow the loaded graph, src/call
# because the words of a call are part of a plan's key. What compiles, stores, launches or shows is not: kernels are kept
# by their own text, and a change there leaves plans as they are. A folder that is not there yet counts as empty.
add_executable(stamp tools/stamp.c src/base/hash.c)
target_include_directories(stamp PRIVATE src)
target_link_libraries(stamp PRIVATE PkgConfig::XXHASH)
set(STAMPED)
foreach(folder base graph load rewrite eval plan codegen executable specialise call library)
    list(APPEND STAMPED src/${folder}/*.c src/${folder}/*.h src/${folder}/*.def)
endforeach()
file(GLOB_RECURSE STAMP_FILES CONFIGURE_DEPENDS ${STAMPED} templates/*)
set(GENERATED_STAMP ${CMAKE_BINARY_DIR}/generated/stamp.c)
add_custom_command(OUTPUT ${GENERATED_STAMP}
    COMMAND stamp ${GENERATED_STAMP} ${STAMP_FILES}
    DEPENDS stamp ${STAMP_FILES} VERBATIM)
add_custom_target(generator_stamp DEPENDS ${GENERATED_STAMP})

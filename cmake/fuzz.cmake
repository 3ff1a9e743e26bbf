# libFuzzer programs: every src/ROOM/**/NAME_fuzz.cc becomes the program fuzz_ROOM_NAME, linked to
# its room. Needs clang; `cmake --preset fuzz` chooses it. Include this before the rooms are made, so
# that their code is instrumented, and call troika_add_fuzz_targets() after.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "TROIKA_FUZZ needs clang: configure with -DCMAKE_C_COMPILER=clang "
                      "-DCMAKE_CXX_COMPILER=clang++, or use `cmake --preset fuzz`.")
endif()

# The project is checked with the warnings of g++; those of clang do not stop a fuzzing build.
add_compile_options(-Wno-error -fsanitize=fuzzer-no-link,address,undefined
                    -fno-sanitize-recover=all -fno-omit-frame-pointer)
add_link_options(-fsanitize=address,undefined)

# Strangers' bytes do not reach the vector kernels as such, and clang takes many minutes to
# instrument them.
file(GLOB vector_kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/kernels/x86/*.cc
                                           ${CMAKE_SOURCE_DIR}/src/kernels/arm/*.cc)
set_source_files_properties(${vector_kernels} PROPERTIES COMPILE_OPTIONS
                            "-O1;-fno-sanitize=fuzzer-no-link,address,undefined")

function(troika_add_fuzz_targets)
  foreach(room IN LISTS TROIKA_ROOMS)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${room}/*_fuzz.cc)
    foreach(source IN LISTS sources)
      get_filename_component(name ${source} NAME_WE)
      string(REGEX REPLACE "_fuzz$" "" name ${name})
      set(target fuzz_${room}_${name})
      add_executable(${target} ${source})
      target_link_libraries(${target} PRIVATE troika_${room})
      target_link_options(${target} PRIVATE -fsanitize=fuzzer)
      list(APPEND targets ${target})
    endforeach()
  endforeach()
  add_custom_target(fuzz_all DEPENDS ${targets})
endfunction()

# One static library for each room of src/, linked to the rooms above it and to nothing else, and
# one test program for the unit tests that stand beside its files.

# In the order in which the data walks; scripts/check_layers.py reads this list too.
set(TROIKA_ROOMS base tensor gguf fetch http text grammar jinja kernels attention model plan cache
                 weights forge convert lanes schedule solve draft prepare machines engine measure tune papers
                 server cli)

set(troika_fmt fmt::fmt)
if(TROIKA_STATIC)
  add_library(troika_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt_static.cc)
  target_include_directories(troika_fmt SYSTEM PUBLIC
                             $<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>)
  set(troika_fmt troika_fmt)
endif()
set(troika_base_libraries ${troika_fmt} nlohmann_json::nlohmann_json Threads::Threads)
set(troika_text_packages libutf8proc)
set(troika_lanes_packages liburing)
set(troika_cli_packages libedit)
if(TROIKA_STATIC)
  # The libraries of libraries too. libedit's libbsd does not say that it wants libmd.
  list(APPEND PKG_CONFIG_ARGN --static)
  list(APPEND troika_cli_packages libmd)
endif()

# Rooms that read, decide and print once: the compiler's further work would not be noticed.
set(troika_unhurried fetch plan convert solve prepare machines engine measure tune papers
                     server cli)
# But for this file of theirs, which goes through all logits of a step.
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/engine/sampler.cc PROPERTIES
                            COMPILE_OPTIONS $<$<CONFIG:Release>:-O2>)

include(cmake/texts.cmake)

function(troika_add_rooms)
  troika_add_texts()
  set(above "")
  foreach(room IN LISTS TROIKA_ROOMS)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${room}/*.cc)
    set(tests ${sources})
    list(FILTER sources EXCLUDE REGEX "(_test|_test_support|_fuzz)\\.cc$|/main\\.cc$")
    list(FILTER tests INCLUDE REGEX "(_test|_test_support)\\.cc$")
    if(NOT sources)
      continue()
    endif()
    # Kernels but the plain ones are compiled for one instruction set each, with macros of their own.
    if(room STREQUAL kernels)
      set(plain ${sources})
      list(FILTER plain INCLUDE REGEX "/kernels/reference/")
      list(REMOVE_ITEM sources ${plain})
      troika_group(plain kernels_reference 16)
      list(APPEND sources ${plain})
      troika_group(tests test_kernels 4)
    else()
      troika_group(sources ${room} 16)
      troika_group(tests test_${room} 16)
    endif()
    set(library troika_${room})
    add_library(${library} STATIC ${sources})
    target_include_directories(${library} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
    if(room IN_LIST troika_unhurried)
      target_compile_options(${library} PRIVATE $<$<CONFIG:Release>:-O1>)
    elseif(room STREQUAL kernels OR room STREQUAL attention)
      target_compile_options(${library} PRIVATE $<$<CONFIG:Release>:-O2>)
    endif()
    if(room STREQUAL tune OR room STREQUAL lanes)
      target_include_directories(${library} PRIVATE ${CMAKE_BINARY_DIR})
    endif()
    target_link_libraries(${library} PUBLIC ${troika_${room}_libraries})
    foreach(package IN LISTS troika_${room}_packages)
      pkg_check_modules(${package} REQUIRED IMPORTED_TARGET ${package})
      target_link_libraries(${library} PUBLIC PkgConfig::${package})
    endforeach()
    foreach(other IN LISTS above)
      target_link_libraries(${library} PUBLIC troika_${other})
    endforeach()
    list(PREPEND above ${room})
    if(tests AND TROIKA_TESTS)
      add_executable(troika_test_${room} ${tests})
      target_include_directories(troika_test_${room} PRIVATE ${CMAKE_SOURCE_DIR})
      target_link_libraries(troika_test_${room} PRIVATE ${library} troika_test_support GTest::gtest
                                                          GTest::gtest_main)
      if(NOT room STREQUAL kernels)
        target_compile_options(troika_test_${room} PRIVATE ${TROIKA_TEST_OPTIONS})
      endif()
      # Its tests use std::regex, in whose header g++ 12 sees variables without a value where the
      # address sanitizer looks.
      if(TROIKA_SANITIZE AND room STREQUAL grammar)
        target_compile_options(troika_test_${room} PRIVATE -Wno-maybe-uninitialized)
      endif()
      gtest_discover_tests(troika_test_${room} TEST_PREFIX ${room}. DISCOVERY_TIMEOUT 60
                           PROPERTIES LABELS unit)
    endif()
  endforeach()
  if(EXISTS ${CMAKE_SOURCE_DIR}/src/cli/main.cc)
    add_executable(troika ${CMAKE_SOURCE_DIR}/src/cli/main.cc)
    target_link_libraries(troika PRIVATE troika_cli)
  endif()
endfunction()

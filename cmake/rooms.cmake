# One static library for each room of src/, linked to the rooms above it and to nothing else, and
# one test program for the unit tests that stand beside its files.

# In the order in which the data walks; scripts/check_layers.py reads this list too.
set(TROIKA_ROOMS base tensor gguf text kernels model plan cache weights convert lanes schedule
                 solve attention draft engine server cli)

set(troika_base_libraries fmt::fmt nlohmann_json::nlohmann_json Threads::Threads)
set(troika_text_packages libutf8proc)
set(troika_lanes_packages liburing)
set(troika_cli_packages libedit)

function(troika_add_rooms)
  set(above "")
  foreach(room IN LISTS TROIKA_ROOMS)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${room}/*.cc)
    set(tests ${sources})
    list(FILTER sources EXCLUDE REGEX "(_test|_fuzz)\\.cc$|/main\\.cc$")
    list(FILTER tests INCLUDE REGEX "_test\\.cc$")
    if(NOT sources)
      continue()
    endif()
    set(library troika_${room})
    add_library(${library} STATIC ${sources})
    target_include_directories(${library} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
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
      gtest_discover_tests(troika_test_${room} TEST_PREFIX ${room}. DISCOVERY_TIMEOUT 60
                           PROPERTIES LABELS unit)
    endif()
  endforeach()
  if(EXISTS ${CMAKE_SOURCE_DIR}/src/cli/main.cc)
    add_executable(troika ${CMAKE_SOURCE_DIR}/src/cli/main.cc)
    target_link_libraries(troika PRIVATE troika_cli)
  endif()
endfunction()

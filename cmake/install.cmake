# `cmake --install`: the program, the models, the virtual phones, the libraries behind the C APIs (of the engine, and of
# attention alone), their headers, and what pkg-config and find_package need to find them.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

if(TARGET troika)
  install(TARGETS troika RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# The small models that the project trained, and what their cards say of them.
file(GLOB troika_models CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/models/*-q8_0.gguf)
if(troika_models)
  file(GLOB troika_cards CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/models/troika-*.md
                                           ${CMAKE_SOURCE_DIR}/models/troika-*.svg)
  install(FILES ${troika_models} ${troika_cards}
          DESTINATION ${CMAKE_INSTALL_DATADIR}/troika/models)
endif()

# The files that --machine and --phones name.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/phones DESTINATION ${CMAKE_INSTALL_DATADIR}/troika)

# Static libraries of a distribution are not made to become part of a shared one.
if(TROIKA_STATIC OR NOT TARGET troika_engine
   OR NOT EXISTS ${CMAKE_SOURCE_DIR}/include/troika/troika.h)
  return()
endif()

# While the first number is 0, a new second one may break programs, so the loader wants both to fit.
set(troika_soversion ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
  string(APPEND troika_soversion .${PROJECT_VERSION_MINOR})
endif()

# A shared library out of the rooms up to one. It shows the functions of a C API and nothing else, so
# that a program may use another version of what it is made from.
function(troika_add_shared target room name)
  set(symbols ${CMAKE_SOURCE_DIR}/cmake/exported_symbols.map)
  add_library(${target} SHARED ${CMAKE_SOURCE_DIR}/cmake/empty.c)
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${name} EXPORT_NAME ${name} LINKER_LANGUAGE CXX
    VERSION ${PROJECT_VERSION} SOVERSION ${troika_soversion} LINK_DEPENDS ${symbols})
  target_include_directories(${target} INTERFACE
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  # What rooms above name and this one does not use is not asked for.
  # It is never unloaded, because its handler of SIGBUS must stay where it is.
  target_link_options(${target} PRIVATE LINKER:--version-script=${symbols} LINKER:--as-needed LINKER:-z,nodelete)
  # Whole, because nothing inside the library calls the C API.
  target_link_libraries(${target} PRIVATE
    -Wl,--whole-archive $<TARGET_FILE:${room}> -Wl,--no-whole-archive ${room})
  add_dependencies(${target} ${room})
  install(TARGETS ${target} EXPORT troika
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_COMPONENT Development)
endfunction()

troika_add_shared(troika_shared troika_engine troika)
troika_add_shared(troika_attention_shared troika_attention troika_attention)

# Another engine in small: it links attention and nothing else.
if(TROIKA_TESTS)
  add_executable(troika_example_attention ${CMAKE_SOURCE_DIR}/examples/attention.c)
  target_link_libraries(troika_example_attention PRIVATE troika_attention_shared m)
  set_target_properties(troika_example_attention PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)
  # By a shell, because CTest does not look at the exit status where it has an expression to look for.
  add_test(NAME attention.S9TheExampleSaysHowFarSparseIsFromFull
           COMMAND sh -ec [=[said=$("$0" "$@" 1500); echo "$said"; echo "$said" | grep -Eq "sparse attention is [0-9.]+ % from"; if "$0" "$@" 1500 2000; then exit 1; fi]=]
                   ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:troika_example_attention>)
  set_tests_properties(attention.S9TheExampleSaysHowFarSparseIsFromFull PROPERTIES LABELS unit)
endif()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/troika DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# Relative to where the file itself lies, so that `cmake --install --prefix` may choose another place.
file(RELATIVE_PATH troika_prefix_from_pc /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
foreach(name troika troika_attention)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/${name}.pc.in ${CMAKE_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/troika)
install(EXPORT troika FILE troikaConfig.cmake NAMESPACE troika:: DESTINATION ${config_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/troikaConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/troikaConfigVersion.cmake DESTINATION ${config_folder})

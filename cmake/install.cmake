# `cmake --install`: the program, the models, the library behind the C API, its header, and what
# pkg-config and find_package need to find them.

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

# Static libraries of a distribution are not made to become part of a shared one.
if(TROIKA_STATIC OR NOT TARGET troika_engine
   OR NOT EXISTS ${CMAKE_SOURCE_DIR}/include/troika/troika.h)
  return()
endif()

# One shared library out of the rooms up to engine/. It shows the functions of the C API and nothing
# else, so that a program may use another version of what it is made from.
add_library(troika_shared SHARED ${CMAKE_CURRENT_LIST_DIR}/empty.c)
set_target_properties(troika_shared PROPERTIES
  OUTPUT_NAME troika EXPORT_NAME troika LINKER_LANGUAGE CXX
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/exported_symbols.map)
target_include_directories(troika_shared INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_options(troika_shared PRIVATE
  LINKER:--version-script=${CMAKE_CURRENT_LIST_DIR}/exported_symbols.map)
# Whole, because nothing inside the library calls the C API.
target_link_libraries(troika_shared PRIVATE
  -Wl,--whole-archive $<TARGET_FILE:troika_engine> -Wl,--no-whole-archive troika_engine)
add_dependencies(troika_shared troika_engine)

install(TARGETS troika_shared EXPORT troika
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_COMPONENT Development)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/troika DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# Relative to where the file itself lies, so that `cmake --install --prefix` may choose another place.
file(RELATIVE_PATH troika_prefix_from_pc /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
configure_file(${CMAKE_CURRENT_LIST_DIR}/troika.pc.in ${CMAKE_BINARY_DIR}/troika.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/troika.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/troika)
install(EXPORT troika FILE troikaConfig.cmake NAMESPACE troika:: DESTINATION ${config_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/troikaConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/troikaConfigVersion.cmake DESTINATION ${config_folder})

# Several files become one unit of the compiler: it reads the headers and instantiates templates once
# for all of them, which is most of its work here. docs/build.md has the figures.

option(TROIKA_GROUPS "Compile the files of a room in groups, not each by itself" ON)
set(TROIKA_ALONE "" CACHE STRING
    "Files that stay outside groups, as a regular expression: '^src/cli/' while one works there")

# These stay outside always: names of their unnamed namespaces suit them, and their neighbours too,
# or they have options of their own (cmake/rooms.cmake).
set(troika_alone
    src/text/spm_test.cc
    src/jinja/functions/string_methods.cc
    src/jinja/functions/tests_builtin.cc
    src/plan/profile_test.cc
    src/forge/synth_test.cc
    src/convert/family_gemma.cc
    src/lanes/virtual/virtual_lane_test.cc
    src/lanes/virtual/virtual_phone_test.cc
    src/papers/sd/reproduce_sd.cc
    src/engine/sampler.cc
    src/engine/session_step_test.cc)
foreach(path IN LISTS troika_alone)
  if(NOT EXISTS ${CMAKE_SOURCE_DIR}/${path})
    message(FATAL_ERROR "${path} is gone: take it out of the list in cmake/groups.cmake")
  endif()
endforeach()

# troika_group(VARIABLE NAME SIZE): replaces the files in the list VARIABLE by files of the build
# folder that include SIZE of them each. NAME tells the groups of several calls apart.
function(troika_group variable name size)
  if(NOT TROIKA_GROUPS)
    return()
  endif()
  set(units "")
  set(group 0)
  set(n_members 0)
  set(text "")
  foreach(source IN LISTS ${variable})
    file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${source})
    if(path IN_LIST troika_alone OR (TROIKA_ALONE AND path MATCHES "${TROIKA_ALONE}"))
      list(APPEND units ${source})
    else()
      # As headers are included, so that a compiler cache finds the same text in every checkout.
      string(REGEX REPLACE "^src/" "" path ${path})
      string(APPEND text "#include \"${path}\"\n")
    endif()
    math(EXPR n_members "${n_members} + 1")
    if(n_members EQUAL size)
      troika_close_group()
    endif()
  endforeach()
  troika_close_group()
  set(${variable} ${units} PARENT_SCOPE)
endfunction()

# Part of the above: a macro, because it writes variables of its caller.
macro(troika_close_group)
  if(text)
    set(unit ${CMAKE_BINARY_DIR}/groups/${name}_${group}.cc)
    file(CONFIGURE OUTPUT ${unit} CONTENT "${text}" @ONLY)
    # A class may hold what an unnamed namespace has: no other unit sees it, as in a file alone.
    set_source_files_properties(${unit} PROPERTIES COMPILE_OPTIONS
                                $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
    list(APPEND units ${unit})
  endif()
  math(EXPR group "${group} + 1")
  set(n_members 0)
  set(text "")
endmacro()

# Tests of the house itself: layers, lengths, documents, scripts.

find_package(Python3 REQUIRED COMPONENTS Interpreter)

function(troika_add_check name)
  add_test(NAME house.${name} COMMAND ${Python3_EXECUTABLE} ${ARGN}
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  # Who lacks what a check needs says so in its first line, and has not passed.
  set_tests_properties(house.${name} PROPERTIES LABELS house SKIP_REGULAR_EXPRESSION "^skipped: ")
endfunction()

troika_add_check(layers scripts/check_layers.py)
troika_add_check(files scripts/check_files.py)
troika_add_check(checks_find_faults tests/house/checks_test.py)
troika_add_check(scripts tests/house/scripts_test.py)
troika_add_check(release tests/house/release_test.py)
troika_add_check(tables tests/house/tables_test.py)
troika_add_check(servers tests/house/servers_test.py)
troika_add_check(charts tests/house/pictures_test.py)
troika_add_check(opencl_kernels tests/house/opencl_kernels_test.py)
if(TARGET troika)
  troika_add_check(documents scripts/check_documents.py --program $<TARGET_FILE:troika>)
  # A sanitized program prints the same figures ten times as slowly.
  if(NOT TROIKA_SANITIZE)
    troika_add_check(phone_tables scripts/phone_tables.py --check --program $<TARGET_FILE:troika>)
    # A test of the room papers looks at the third picture, which takes minutes here.
    troika_add_check(pictures scripts/pictures.py --check --program $<TARGET_FILE:troika>
                     timeline.svg layout-switch.svg)
    # On a fresh clone CTest knows no times: whoever has the largest cost begins first, so that no core is
    # idle while the other one ends what takes two minutes.
    set_tests_properties(house.phone_tables house.pictures PROPERTIES TIMEOUT 600 COST 100)
  endif()
else()
  troika_add_check(documents scripts/check_documents.py)
endif()
# A sanitized or foreign library does not suit a caller that is built plainly.
if(TARGET troika_shared AND TARGET troika AND NOT TROIKA_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  troika_add_check(install tests/house/install_test.py ${CMAKE_BINARY_DIR} ${CMAKE_C_COMPILER})
  set_tests_properties(house.install PROPERTIES TIMEOUT 300)
endif()
if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64 AND CMAKE_BUILD_TYPE STREQUAL Release AND NOT TROIKA_SANITIZE)
  troika_add_check(probes tests/house/probe_test.py $<TARGET_FILE:troika_kernels>)
endif()
troika_add_check(model_recipe models/train/recipe_test.py)
troika_add_check(model_training models/train/training_test.py)
set_tests_properties(house.model_recipe house.model_training PROPERTIES TIMEOUT 600)

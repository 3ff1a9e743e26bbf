# Texts that the program carries: each file of texts/, and each kernel that a device's driver compiles
# when the program runs, becomes a string literal for the compiler.

function(troika_add_texts)
  file(GLOB texts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/texts/*.txt)
  foreach(path IN LISTS texts)
    get_filename_component(name ${path} NAME_WE)
    string(REPLACE "-" "_" name ${name})
    set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
    file(READ ${path} text)
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/texts/${name}.inl
         CONTENT "R\"(@text@)\"" @ONLY)
  endforeach()
  file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/lanes/opencl/kernels/*.cl)
  foreach(path IN LISTS kernels)
    get_filename_component(name ${path} NAME_WE)
    set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
    file(READ ${path} text)
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/opencl_kernels/${name}.inl
         CONTENT "R\"troika(@text@)troika\"" @ONLY)
  endforeach()
endfunction()

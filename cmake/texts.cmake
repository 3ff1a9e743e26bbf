# Texts that the program carries: each file of texts/ becomes a string literal for the compiler.

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
endfunction()

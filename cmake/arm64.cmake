# Cross build for 64-bit Arm with Debian's cross compiler; tests run under qemu.
# scripts/arm64_sysroot.sh makes the folder of libraries.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

set(troika_sysroot ${CMAKE_CURRENT_LIST_DIR}/../build/arm64-sysroot)
get_filename_component(troika_sysroot ${troika_sysroot} ABSOLUTE)
if(NOT EXISTS ${troika_sysroot}/packages)
  message(FATAL_ERROR "${troika_sysroot} is missing: run scripts/arm64_sysroot.sh")
endif()
set(troika_libraries ${troika_sysroot}/usr/lib/aarch64-linux-gnu)

# The compiler brings its own C library, so this is where to look, not what to compile against.
set(CMAKE_FIND_ROOT_PATH ${troika_sysroot} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${troika_sysroot})
set(ENV{PKG_CONFIG_LIBDIR} ${troika_libraries}/pkgconfig:${troika_sysroot}/usr/share/pkgconfig)

# Libraries of libraries (libedit wants libbsd, and libtinfo, which Debian keeps
# in /lib): the linker looks for them here.
set(troika_base_libraries ${troika_sysroot}/lib/aarch64-linux-gnu)
set(troika_rpath_link " \"-Wl,-rpath-link,${troika_libraries}:${troika_base_libraries}\"")
string(APPEND CMAKE_EXE_LINKER_FLAGS_INIT ${troika_rpath_link})
string(APPEND CMAKE_SHARED_LINKER_FLAGS_INIT ${troika_rpath_link})

# `max` is every feature that qemu can do: dotprod and i8mm among them.
set(CMAKE_CROSSCOMPILING_EMULATOR
    qemu-aarch64 -cpu max -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=${troika_libraries}:${troika_base_libraries})

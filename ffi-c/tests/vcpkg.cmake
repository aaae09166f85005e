# What vcpkg gives a port, as far as ours uses it, and the port: cmake -D PLACE=… -D LINKAGE=static|dynamic -D ARCHIVE=… -P vcpkg.cmake
# leaves the package in PLACE/package. vcpkg itself, which no registry of packages has, checks more of a package than this.
set(CURRENT_PORT_DIR "${CMAKE_CURRENT_LIST_DIR}/../install/vcpkg")
set(CURRENT_BUILDTREES_DIR "${PLACE}/buildtrees")
set(CURRENT_PACKAGES_DIR "${PLACE}/package")
set(TARGET_TRIPLET "x64-linux")
set(VCPKG_LIBRARY_LINKAGE "${LINKAGE}")

function(vcpkg_execute_required_process)
  cmake_parse_arguments(PARSE_ARGV 0 wanted "" "WORKING_DIRECTORY;LOGNAME" "COMMAND")
  list(GET wanted_COMMAND 0 program)
  if(program STREQUAL "cargo" AND ARCHIVE)
    # It is here already; where it is built to is what the next step must ask for.
    list(GET wanted_COMMAND -1 target)
    file(COPY "${ARCHIVE}" DESTINATION "${target}/dist")
    get_filename_component(name "${ARCHIVE}" NAME)
    file(RENAME "${target}/dist/${name}" "${target}/dist/libleasehold_ffi.a")
  else()
    execute_process(COMMAND ${wanted_COMMAND} WORKING_DIRECTORY "${wanted_WORKING_DIRECTORY}" COMMAND_ERROR_IS_FATAL ANY)
  endif()
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 wanted "" "" "FILE_LIST")
  foreach(file IN LISTS wanted_FILE_LIST)
    file(READ "${file}" text)
    file(APPEND "${CURRENT_PACKAGES_DIR}/share/leasehold/copyright" "${text}")
  endforeach()
endfunction()

include("${CURRENT_PORT_DIR}/portfile.cmake")

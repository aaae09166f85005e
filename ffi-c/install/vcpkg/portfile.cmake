# An overlay port of the C library, built from the checkout that it lies in:
#
#   vcpkg install leasehold --overlay-ports=<checkout>/ffi-c/install/vcpkg
#
# Needs what `make install-c` needs: Rust, a C compiler, binutils and protoc on the PATH.

get_filename_component(CHECKOUT "${CURRENT_PORT_DIR}/../../.." ABSOLUTE)
set(BUILT "${CURRENT_BUILDTREES_DIR}/target")
set(INSTALLED "${CURRENT_BUILDTREES_DIR}/installed")

vcpkg_execute_required_process(
  COMMAND cargo build --locked --profile dist -p leasehold-ffi-c --target-dir "${BUILT}"
  WORKING_DIRECTORY "${CHECKOUT}"
  LOGNAME "build-${TARGET_TRIPLET}")

# The prefix is of no consequence: what finds the library looks beside its own files.
file(REMOVE_RECURSE "${INSTALLED}")
vcpkg_execute_required_process(
  COMMAND "${CMAKE_COMMAND}" -E env "ARCHIVE=${BUILT}/dist/libleasehold_ffi.a" PREFIX=/usr "DESTDIR=${INSTALLED}"
    "${CHECKOUT}/ffi-c/install/run"
  WORKING_DIRECTORY "${CHECKOUT}"
  LOGNAME "install-${TARGET_TRIPLET}")
file(COPY "${INSTALLED}/usr/include" "${INSTALLED}/usr/lib" DESTINATION "${CURRENT_PACKAGES_DIR}")

# One library, of the kind that the triplet asks for.
if(VCPKG_LIBRARY_LINKAGE STREQUAL "dynamic")
  file(REMOVE "${CURRENT_PACKAGES_DIR}/lib/libleasehold.a")
else()
  file(GLOB SHARED "${CURRENT_PACKAGES_DIR}/lib/libleasehold.so*")
  file(REMOVE ${SHARED})
endif()

# find_package(leasehold CONFIG) looks into share/ here; ours finds the library beside itself, and so stays in lib/.
file(WRITE "${CURRENT_PACKAGES_DIR}/share/leasehold/leaseholdConfig.cmake"
  "include(\"\${CMAKE_CURRENT_LIST_DIR}/../../lib/cmake/leasehold/leaseholdConfig.cmake\")\n")
file(COPY "${CURRENT_PACKAGES_DIR}/lib/cmake/leasehold/leaseholdConfigVersion.cmake" DESTINATION "${CURRENT_PACKAGES_DIR}/share/leasehold")
set(VCPKG_POLICY_SKIP_LIB_CMAKE_MERGE_CHECK enabled)
set(VCPKG_POLICY_SKIP_MISPLACED_CMAKE_FILES_CHECK enabled)
# One build, for debuggers and for users.
set(VCPKG_POLICY_MISMATCHED_NUMBER_OF_BINARIES enabled)
vcpkg_install_copyright(FILE_LIST "${CHECKOUT}/LICENSE" "${CHECKOUT}/THIRD-PARTY-NOTICES.txt")

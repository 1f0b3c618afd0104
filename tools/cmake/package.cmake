# What `cmake --install` copies beside the programs, and the Debian package: `cpack --config build/CPackConfig.cmake`
# leaves build/dist/mtf-train_VERSION_ARCHITECTURE.deb. The wheel of tools/wheel.sh is made of the same installed files.
install(DIRECTORY configs/ DESTINATION share/mtf-train/configs)
install(FILES README.md CHANGELOG.md DESTINATION share/doc/mtf-train)
install(DIRECTORY docs DESTINATION share/doc/mtf-train)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME mtf-train)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/dist)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains neural networks on any arrangement of processors")
set(CPACK_STRIP_FILES ON)
# Independent of the umask of whoever builds.
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "mtf-train maintainers")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS dataset-fashion-mnist)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
include(CPack)

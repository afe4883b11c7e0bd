# What is installed: headers, the runtime, the tools, the policies, and a package
# file for find_package(kvc). Components are what the wheels of python/ take.
include(CMakePackageConfigHelpers)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/runtime/include/kvc
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/policies
  DESTINATION ${CMAKE_INSTALL_DATADIR}/kvc COMPONENT policies FILES_MATCHING PATTERN "*.mlir")
# A build folder has them where an installation has: KVC_HOME of the Python package is either.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/share/kvc)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/policies ${PROJECT_BINARY_DIR}/share/kvc/policies SYMBOLIC)
install(TARGETS kvc_runtime EXPORT kvcTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET kvc_shared)
  install(TARGETS kvc_shared EXPORT kvcTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
endif()
# By itself: it needs Boost.Context where it is linked, the runtime does not.
install(TARGETS kvc_host kvc_ptx EXPORT kvcHostTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/kvc)
install(EXPORT kvcTargets NAMESPACE kvc:: DESTINATION ${package})
install(EXPORT kvcHostTargets NAMESPACE kvc:: DESTINATION ${package})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/kvcConfig.cmake.in
  ${PROJECT_BINARY_DIR}/kvcConfig.cmake INSTALL_DESTINATION ${package}
  PATH_VARS CMAKE_INSTALL_DATADIR CMAKE_INSTALL_BINDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/kvcConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/kvcConfig.cmake
  ${PROJECT_BINARY_DIR}/kvcConfigVersion.cmake DESTINATION ${package})

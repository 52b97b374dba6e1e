# `cmake --install`: the command, the static library in one file, the headers, the workers, the tables they read, pkg-config.
#
#   bin/vernier   include/vernier/*.h   lib/libvernier.a   lib/pkgconfig/vernier.pc
#   libexec/vernier/workers/        vernier-worker-<name>, and python/ with the workers written in Python
#   libexec/vernier/models          behind `vernier models`, with its tables beside it
#   share/doc/vernier/              LICENSE and docs/
include(GNUInstallDirs)
set(VN_LIBEXEC ${CMAKE_INSTALL_LIBEXECDIR}/vernier)

install(TARGETS vernier RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/vernier DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

# All rooms in one archive, so that a user links one name and needs no order. Merged by ar when it is installed.
get_property(rooms GLOBAL PROPERTY VN_ROOMS)
set(vn_archives)
foreach(room ${rooms} vn_onnx_proto)
  get_target_property(kind ${room} TYPE)
  if(kind STREQUAL STATIC_LIBRARY)
    string(APPEND vn_archives "addlib $<TARGET_FILE:${room}>\\n")
  endif()
endforeach()
set(vn_archive ${CMAKE_BINARY_DIR}/libvernier.a)
install(CODE "
  file(REMOVE \"${vn_archive}\")
  file(WRITE \"${vn_archive}.mri\" \"create ${vn_archive}\\n${vn_archives}save\\nend\\n\")
  execute_process(COMMAND \"${CMAKE_AR}\" -M INPUT_FILE \"${vn_archive}.mri\" RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR \"${CMAKE_AR} -M could not merge the archives\")
  endif()")
install(FILES ${vn_archive} DESTINATION ${CMAKE_INSTALL_LIBDIR})

get_property(workers DIRECTORY ${CMAKE_SOURCE_DIR}/workers PROPERTY BUILDSYSTEM_TARGETS)
foreach(worker ${workers})
  get_target_property(kind ${worker} TYPE)
  if(kind STREQUAL EXECUTABLE)
    install(TARGETS ${worker} RUNTIME DESTINATION ${VN_LIBEXEC}/workers)
  endif()
endforeach()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/workers/python DESTINATION ${VN_LIBEXEC}/workers
        FILES_MATCHING PATTERN "*.py" PATTERN "requirements-*.txt" PATTERN "__pycache__" EXCLUDE)
install(PROGRAMS ${CMAKE_SOURCE_DIR}/tools/models DESTINATION ${VN_LIBEXEC})
install(FILES ${CMAKE_SOURCE_DIR}/tools/models.py ${CMAKE_SOURCE_DIR}/data/models.tsv ${CMAKE_SOURCE_DIR}/data/model_packages.tsv
        DESTINATION ${VN_LIBEXEC})
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The prefix is known only now: `cmake --install --prefix` may differ from the configured one.
install(CODE "
  set(PROJECT_VERSION \"${PROJECT_VERSION}\")
  set(CMAKE_INSTALL_LIBDIR \"${CMAKE_INSTALL_LIBDIR}\")
  set(CMAKE_INSTALL_INCLUDEDIR \"${CMAKE_INSTALL_INCLUDEDIR}\")
  configure_file(\"${CMAKE_SOURCE_DIR}/cmake/vernier.pc.in\" \"${CMAKE_BINARY_DIR}/vernier.pc\" @ONLY)")
install(FILES ${CMAKE_BINARY_DIR}/vernier.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

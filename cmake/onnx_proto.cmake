# onnx-ml.proto of the installed `onnx` Python package -> C by protoc-c, at build time. Nothing generated is kept in the tree.
execute_process(
  COMMAND ${VN_PYTHON} -c "import importlib.util, pathlib; print(pathlib.Path(importlib.util.find_spec('onnx').origin).parent)"
  OUTPUT_VARIABLE VN_ONNX_DIR OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE found ERROR_VARIABLE why)
if(NOT found EQUAL 0 OR NOT EXISTS "${VN_ONNX_DIR}/onnx-ml.proto")
  message(FATAL_ERROR "The Python package 'onnx' is not in ${VN_PYTHON}: run tools/setup first.\n${why}")
endif()
find_program(PROTOC_C protoc-c REQUIRED)
set(gen ${CMAKE_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${gen})
add_custom_command(
  OUTPUT ${gen}/onnx-ml.pb-c.c ${gen}/onnx-ml.pb-c.h
  COMMAND ${PROTOC_C} --proto_path=${VN_ONNX_DIR} --c_out=${gen} onnx-ml.proto
  DEPENDS ${VN_ONNX_DIR}/onnx-ml.proto
  COMMENT "onnx-ml.proto of the onnx package -> C")
add_library(vn_onnx_proto STATIC ${gen}/onnx-ml.pb-c.c ${gen}/onnx-ml.pb-c.h)
target_include_directories(vn_onnx_proto SYSTEM PUBLIC ${gen})
target_link_libraries(vn_onnx_proto PUBLIC PkgConfig::PROTOBUFC)
target_compile_options(vn_onnx_proto PRIVATE -w -fno-sanitize=all) # tables; also linked into what stays plain

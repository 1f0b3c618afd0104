# Writes a CTest file with a test for each suite of a Google Test program, so that a kernel that fails spoils one suite.
#   cmake -D PROGRAM=... -D PREFIX=gpu -D OUTPUT=... -P suite_tests.cmake
execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE list COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "(^|\n)[A-Za-z_][A-Za-z0-9_/]*\\." suites "${list}")
set(text "")
foreach(suite ${suites})
  string(REGEX REPLACE "[\n.]" "" suite ${suite})
  set(name ${PREFIX}.${suite})
  string(APPEND text "add_test([==[${name}]==] ${PROGRAM} --gtest_brief=1 [==[--gtest_filter=${suite}.*]==])\n"
         "set_tests_properties([==[${name}]==] PROPERTIES LABELS gpu ENVIRONMENT MTF_TEST_DEVICES=cuda SKIP_RETURN_CODE 77 TIMEOUT 900)\n")
endforeach()
file(WRITE ${OUTPUT} "${text}")

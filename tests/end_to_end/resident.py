# resident.py PROGRAM ARGUMENT...: runs the program and prints the largest number of bytes that it had resident. Its output
# goes to the file `out`; its exit code is passed on.
import os
import subprocess
import sys

with open("out", "w") as out:
    child = subprocess.Popen(sys.argv[1:], stdout=out, stderr=subprocess.STDOUT)
_, status, usage = os.wait4(child.pid, 0)
print(usage.ru_maxrss * 1024)
sys.exit(os.waitstatus_to_exitcode(status))

"""`python -m steersman` becomes the program."""

import os
import sys

from steersman import path

os.execv(path(), ["steersman", *sys.argv[1:]])

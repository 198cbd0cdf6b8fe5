"""Runs a program on a pseudo-terminal and copies its output.

usage: terminal.py WIDTH WIDTH_LATER PROGRAM [ARGUMENT...]

The width changes once the program has drawn a row; a line `@resized@` in the copy marks that moment.
"""

import fcntl
import os
import pty
import struct
import sys
import termios

HEIGHT = 30


def resize(terminal, width):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, width, 0, 0))


def main():
    first, later, program = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    child, terminal = pty.fork()
    if child == 0:
        resize(sys.stdout.fileno(), first)
        os.execv(program[0], program)
    copy, resized = sys.stdout.buffer, False
    while True:
        try:
            output = os.read(terminal, 65536)
        except OSError:  # Linux reports a closed terminal this way
            break
        if not output:
            break
        copy.write(output)
        if not resized and b"new pods" in output:
            resized = True
            resize(terminal, later)
            copy.write(b"\n@resized@\n")
    copy.flush()
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


main()
